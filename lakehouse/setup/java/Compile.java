import java.io.File;
import org.codehaus.janino.Compiler;

/** Compiles a Java file into a folder of classes, by the compiler that Spark ships: a JRE suffices. */
public class Compile {
    public static void main(String[] arguments) throws Exception {
        Compiler compiler = new Compiler();
        compiler.setDestinationDirectory(new File(arguments[1]), false);
        compiler.compile(new File[] {new File(arguments[0])});
    }
}
