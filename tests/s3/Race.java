import io.delta.storage.LogStore;
import java.nio.file.FileAlreadyExistsException;
import java.util.Collections;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;

/**
 * Writes the versions of one log, as one of several processes do; prints how many it believes to be its own.
 *
 * Arguments: class of the log store, folder, number of versions, own name, number of processes, settings (name=value).
 */
public class Race {
    private static final long STEP = 200L;
    private static final long PAUSE = 6000L;

    public static void main(String[] arguments) throws Exception {
        Configuration configuration = new Configuration();
        for (int index = 5; index < arguments.length; index++) {
            String[] setting = arguments[index].split("=", 2);
            configuration.set(setting[0], setting[1]);
        }
        LogStore store = (LogStore) Class.forName(arguments[0])
            .getConstructor(new Class[] {Configuration.class}).newInstance(new Object[] {configuration});
        store.write(path(arguments[1], "ready-" + arguments[3]), line(""), Boolean.TRUE, configuration);
        long start = awaitAll(store, arguments[1], Integer.parseInt(arguments[4]), configuration) + PAUSE;
        int own = 0;
        for (int version = 0; version < Integer.parseInt(arguments[2]); version++) {
            long begin = start + STEP * version; // the same moment in both processes
            Thread.sleep(Math.max(0L, begin - System.currentTimeMillis()));
            if (System.currentTimeMillis() > begin + STEP) {
                continue; // too late to meet the other
            }
            Path path = path(arguments[1], String.format("%020d.json", new Object[] {Integer.valueOf(version)}));
            try {
                store.write(path, line(arguments[3]), Boolean.FALSE, configuration);
                own++;
            } catch (FileAlreadyExistsException taken) {
                continue;
            }
        }
        System.out.println("own " + own);
        System.exit(0);
    }

    /** Waits until all processes are ready; gives when the last one was, in milliseconds. */
    private static long awaitAll(LogStore store, String folder, int processes, Configuration configuration)
        throws Exception {
        while (true) {
            java.util.Iterator files = store.listFrom(path(folder, "ready-"), configuration);
            long last = 0L;
            int count = 0;
            for (; files.hasNext(); count++) {
                last = Math.max(last, ((FileStatus) files.next()).getModificationTime());
            }
            if (count == processes) {
                return last;
            }
            Thread.sleep(50L);
        }
    }

    private static Path path(String folder, String name) {
        return new Path(folder + "/" + name);
    }

    private static java.util.Iterator line(String text) {
        return Collections.singletonList(text).iterator();
    }
}
