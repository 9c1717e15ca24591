import java.io.BufferedOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Function;
import org.apache.hudi.io.ByteArraySeekableDataInputStream;
import org.apache.hudi.io.ByteBufferBackedInputStream;
import org.apache.hudi.io.compress.CompressionCodec;
import org.apache.hudi.io.hfile.HFileContext;
import org.apache.hudi.io.hfile.HFileReader;
import org.apache.hudi.io.hfile.HFileReaderImpl;
import org.apache.hudi.io.hfile.HFileWriterImpl;
import org.apache.hudi.io.hfile.KeyValue;
import org.apache.hudi.io.hfile.UTF8StringKey;

/**
 * Apache Hudi's own reader and writer of HFiles, for judge_server.py, which compiles this with the
 * Janino of Spark: so no generics beyond declarations, and no lambdas. A request is a line of words;
 * lists of byte strings are in files, each with its length before it. Answers with the processor
 * time of the thread in seconds, for files not counted.
 */
public class HFileJudge implements Function {
  public Object apply(Object request) {
    String[] words = ((String) request).split(" ");
    try {
      if (words[0].equals("write")) {
        return write(words);
      }
      return words[0].equals("scan") ? scan(words) : lookup(words);
    } catch (IOException error) {
      throw new RuntimeException(error);
    }
  }

  /** write INPUT OUTPUT CODEC BLOCK_BYTES CREATED_MS: the input has file info, meta and entries. */
  private static String write(String[] words) throws IOException {
    DataInputStream input = new DataInputStream(new FileInputStream(words[1]));
    List info = strings(input);
    List meta = strings(input);
    List entries = strings(input);
    input.close();
    List keys = new ArrayList();
    for (int at = 0; at < entries.size(); at += 2) {
      keys.add(new String((byte[]) entries.get(at), "UTF-8"));
    }
    HFileContext context = HFileContext.builder()
        .compressionCodec(CompressionCodec.valueOf(words[3]))
        .blockSize(Integer.parseInt(words[4]))
        .fileCreationTime(Long.parseLong(words[5]))
        .build();
    long begun = now();
    HFileWriterImpl writer = new HFileWriterImpl(
        context, new BufferedOutputStream(new FileOutputStream(words[2])));
    for (int at = 0; at < info.size(); at += 2) {
      writer.appendFileInfo(new String((byte[]) info.get(at), "UTF-8"), (byte[]) info.get(at + 1));
    }
    for (int at = 0; at < meta.size(); at += 2) {
      writer.appendMetaInfo(new String((byte[]) meta.get(at), "UTF-8"), (byte[]) meta.get(at + 1));
    }
    for (int at = 0; at < keys.size(); at++) {
      writer.append((String) keys.get(at), (byte[]) entries.get(2 * at + 1));
    }
    writer.close();
    return seconds(begun);
  }

  /** scan FILE OUTPUT: all entries, in the order of the file. OUTPUT - keeps nothing. */
  private static String scan(String[] words) throws IOException {
    byte[] content = Files.readAllBytes(Paths.get(words[1]));
    List found = new ArrayList();
    long begun = now();
    HFileReader reader = reader(content);
    boolean more = reader.seekTo();
    while (more) {
      add(found, (KeyValue) reader.getKeyValue().get(), words[2]);
      more = reader.next();
    }
    String answer = seconds(begun);
    save(found, words[2]);
    return answer;
  }

  /** lookup FILE OUTPUT KEYS: the entries of those keys, which ascend. */
  private static String lookup(String[] words) throws IOException {
    byte[] content = Files.readAllBytes(Paths.get(words[1]));
    DataInputStream input = new DataInputStream(new FileInputStream(words[3]));
    List keys = strings(input);
    input.close();
    List found = new ArrayList();
    long begun = now();
    HFileReader reader = reader(content);
    reader.seekTo();
    for (int at = 0; at < keys.size(); at++) {
      if (reader.seekTo(new UTF8StringKey((byte[]) keys.get(at))) == 0) {
        add(found, (KeyValue) reader.getKeyValue().get(), words[2]);
      }
    }
    String answer = seconds(begun);
    save(found, words[2]);
    return answer;
  }

  private static HFileReader reader(byte[] content) throws IOException {
    HFileReader reader = new HFileReaderImpl(
        new ByteArraySeekableDataInputStream(new ByteBufferBackedInputStream(content)),
        content.length);
    reader.initializeMetadata();
    return reader;
  }

  private static void add(List found, KeyValue entry, String output) {
    byte[] key = new byte[entry.getKeyContentLength()];
    System.arraycopy(entry.getBytes(), entry.getKeyContentOffset(), key, 0, key.length);
    byte[] value = new byte[entry.getValueLength()];
    System.arraycopy(entry.getBytes(), entry.getValueOffset(), value, 0, value.length);
    if (!output.equals("-")) {
      found.add(key);
      found.add(value);
    }
  }

  private static List strings(DataInputStream input) throws IOException {
    byte[] all = new byte[input.readInt()];
    input.readFully(all);
    List found = new ArrayList();
    int at = 0;
    while (at < all.length) {
      int length = ((all[at] & 0xff) << 24) | ((all[at + 1] & 0xff) << 16)
          | ((all[at + 2] & 0xff) << 8) | (all[at + 3] & 0xff);
      byte[] each = new byte[length];
      System.arraycopy(all, at + 4, each, 0, length);
      found.add(each);
      at += 4 + length;
    }
    return found;
  }

  private static void save(List strings, String path) throws IOException {
    if (path.equals("-")) {
      return;
    }
    DataOutputStream output =
        new DataOutputStream(new BufferedOutputStream(new FileOutputStream(path)));
    for (int at = 0; at < strings.size(); at++) {
      byte[] each = (byte[]) strings.get(at);
      output.writeInt(each.length);
      output.write(each);
    }
    output.close();
  }

  private static String seconds(long begun) {
    return String.valueOf((now() - begun) / 1e9);
  }

  private static long now() {
    return ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime();
  }
}
