import java.io.File;
import java.net.InetSocketAddress;
import org.apache.hadoop.hive.conf.HiveConf;
import org.apache.hadoop.hive.metastore.HiveMetaStore.HMSHandler;
import org.apache.hadoop.hive.metastore.api.ThriftHiveMetastore;
import org.apache.hadoop.hive.metastore.txn.TxnDbUtil;
import org.apache.hadoop.hive.metastore.txn.TxnStore;
import org.apache.hadoop.hive.metastore.txn.TxnUtils;
import org.apache.thrift.server.TThreadPoolServer;
import org.apache.thrift.transport.TServerSocket;

/**
 * Hive's metastore over a Derby database, on this machine only: its own main class listens
 * everywhere. Locks of silent holders are taken away by Hive's own code, which a metastore runs
 * in a service of its own, here often enough for tests.
 *
 * <p>Usage: java -cp JARS Metastore.java FOLDER LOCK_TIMEOUT_S; it prints its port.
 */
public class Metastore {
  private static final long TIME_OUTS_MS = 200;

  public static void main(String[] arguments) throws Exception {
    String folder = new File(arguments[0]).getAbsolutePath();
    System.setProperty("derby.stream.error.file", folder + "/derby.log");
    HiveConf conf = new HiveConf();
    conf.set("javax.jdo.option.ConnectionURL", "jdbc:derby:;databaseName=" + folder + "/db;create=true");
    conf.set("hive.metastore.warehouse.dir", folder + "/warehouse");
    conf.set("hive.exec.scratchdir", folder + "/scratch");
    conf.set("hive.metastore.schema.verification", "false");
    conf.set("datanucleus.connectionPoolingType", "hikaricp");
    conf.set("datanucleus.schema.autoCreateAll", "true");
    conf.set("hive.txn.timeout", arguments[1] + "s");
    TxnDbUtil.prepDb(conf);
    // Not initialised: its catalogue is made when somebody asks for it, which takes long.
    HMSHandler handler = new HMSHandler("metastore", conf, false);
    TServerSocket socket = new TServerSocket(new InetSocketAddress("127.0.0.1", 0));
    TThreadPoolServer server =
        new TThreadPoolServer(
            new TThreadPoolServer.Args(socket)
                .processor(new ThriftHiveMetastore.Processor<>(handler)));
    TxnStore locks = TxnUtils.getTxnStore(conf);
    Thread timeOuts =
        new Thread(
            () -> {
              while (true) {
                locks.performTimeOuts();
                try {
                  Thread.sleep(TIME_OUTS_MS);
                } catch (InterruptedException stopped) {
                  return;
                }
              }
            });
    timeOuts.setDaemon(true);
    timeOuts.start();
    System.out.println(socket.getServerSocket().getLocalPort());
    server.serve();
  }
}
