import sys

import fake_jobs

sys.exit(fake_jobs.main(fake_jobs.write))
