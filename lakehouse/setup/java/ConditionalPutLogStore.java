package lakehouse;

import io.delta.storage.S3SingleDriverLogStore;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.util.Arrays;
import java.util.Iterator;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FSDataOutputStreamBuilder;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/**
 * Delta's log on an object store that keeps conditional PUTs: of two processes that write one version, one gets an error.
 *
 * Delta's own store for s3a asks whether the file exists, and then overwrites it: the commit of whoever asked at the same
 * time is lost. Here the store itself refuses to overwrite (HTTP's If-None-Match). The syntax is Janino's: Java 8 without
 * lambdas.
 */
public class ConditionalPutLogStore extends S3SingleDriverLogStore {
    private static final String CONDITIONAL = "fs.option.create.conditional.overwrite";

    public ConditionalPutLogStore(Configuration configuration) {
        super(configuration);
    }

    public void write(Path path, Iterator actions, Boolean overwrite, Configuration configuration) throws IOException {
        if (overwrite.booleanValue()) {
            super.write(path, actions, overwrite, configuration);
            return;
        }
        byte[] content = lines(actions);
        FileSystem fileSystem = path.getFileSystem(configuration);
        try {
            putIfAbsent(fileSystem, path, content);
        } catch (IOException error) {
            // The client repeats a request whose answer was lost: then it meets its own file.
            byte[] present = presentContent(fileSystem, path);
            if (present == null) {
                throw error;
            }
            if (!Arrays.equals(present, content)) {
                throw new java.nio.file.FileAlreadyExistsException(path.toString());
            }
        }
    }

    private static byte[] lines(Iterator actions) throws IOException {
        ByteArrayOutputStream buffer = new ByteArrayOutputStream();
        while (actions.hasNext()) {
            buffer.write(((String) actions.next()).getBytes("UTF-8"));
            buffer.write('\n');
        }
        return buffer.toByteArray();
    }

    private static void putIfAbsent(FileSystem fileSystem, Path path, byte[] content) throws IOException {
        FSDataOutputStreamBuilder builder = fileSystem.createFile(path);
        builder.overwrite(false);
        builder.must(CONDITIONAL, true);
        FSDataOutputStream stream = (FSDataOutputStream) builder.build();
        try {
            stream.write(content);
        } catch (IOException error) {
            stream.abort(); // close() would make a file of what was written so far
            throw error;
        }
        stream.close();
    }

    private static byte[] presentContent(FileSystem fileSystem, Path path) throws IOException {
        InputStream stream;
        try {
            stream = fileSystem.open(path);
        } catch (java.io.FileNotFoundException missing) {
            return null;
        }
        try {
            ByteArrayOutputStream buffer = new ByteArrayOutputStream();
            byte[] part = new byte[8192];
            for (int size = stream.read(part); size >= 0; size = stream.read(part)) {
                buffer.write(part, 0, size);
            }
            return buffer.toByteArray();
        } finally {
            stream.close();
        }
    }
}
