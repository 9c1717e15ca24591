// The lock of Apache Hudi's JVM writers, as a program: Curator's InterProcessMutex on one path.
//
//   java -cp 'JARS/*' CuratorLock.java SERVERS PATH hold            take; answer `release` on stdin
//   java -cp 'JARS/*' CuratorLock.java SERVERS PATH contend FOLDER ROUNDS
//
// `contend` waits for a line, then does what it guards as tests/support/contracts/lock_process.py does.

import static java.nio.file.StandardOpenOption.APPEND;
import static java.nio.file.StandardOpenOption.CREATE;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.BoundedExponentialBackoffRetry;

public class CuratorLock {
  public static void main(String[] arguments) throws Exception {
    CuratorFramework client = CuratorFrameworkFactory.builder()
        .connectString(arguments[0])
        .retryPolicy(new BoundedExponentialBackoffRetry(1000, 5000, 3))
        .sessionTimeoutMs(4_000)
        .connectionTimeoutMs(15_000)
        .build();
    client.start();
    InterProcessMutex mutex = new InterProcessMutex(client, arguments[1]);
    if (arguments[2].equals("hold")) {
      hold(mutex);
    } else {
      contend(mutex, Paths.get(arguments[3]), Integer.parseInt(arguments[4]));
    }
    client.close();
  }

  private static void hold(InterProcessMutex mutex) throws Exception {
    BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
    System.out.println("ready");
    for (String line = input.readLine(); line != null; line = input.readLine()) {
      if (line.startsWith("acquire ")) {
        long waitMs = Long.parseLong(line.substring(8));
        System.out.println(mutex.acquire(waitMs, TimeUnit.MILLISECONDS) ? "acquired" : "refused");
      } else {
        mutex.release();
        System.out.println("released");
      }
    }
  }

  private static void contend(InterProcessMutex mutex, Path folder, int rounds) throws Exception {
    System.out.println("ready");
    System.in.read();
    for (int round = 0; round < rounds; round++) {
      if (!mutex.acquire(120, TimeUnit.SECONDS)) {
        throw new IllegalStateException("not acquired");
      }
      Files.createFile(folder.resolve("inside"));
      int count = Integer.parseInt(Files.readString(folder.resolve("count")).trim());
      Files.writeString(folder.resolve("count"), String.valueOf(count + 1));
      Files.writeString(folder.resolve("order"), "jvm\n", CREATE, APPEND);
      Files.delete(folder.resolve("inside"));
      mutex.release();
    }
    System.out.println("done");
  }
}
