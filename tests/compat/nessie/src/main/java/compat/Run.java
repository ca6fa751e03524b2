package compat;

import java.util.Locale;
import java.util.Optional;
import org.junit.platform.engine.TestExecutionResult;
import org.junit.platform.engine.discovery.DiscoverySelectors;
import org.junit.platform.launcher.TestExecutionListener;
import org.junit.platform.launcher.TestIdentifier;
import org.junit.platform.launcher.core.LauncherDiscoveryRequestBuilder;
import org.junit.platform.launcher.core.LauncherFactory;

/**
 * Runs the published tests and tells what became of each: one line of four fields between tabs, the
 * outcome, the JUnit id, the kind of the failure and its message. Judging is left to the reader.
 */
public final class Run implements TestExecutionListener {

  public static void main(String[] arguments) {
    LauncherFactory.create()
        .execute(
            LauncherDiscoveryRequestBuilder.request()
                .selectors(DiscoverySelectors.selectClass(PublishedTests.class))
                .build(),
            new Run());
    System.out.println("end");
    System.out.flush();
    // Clients of the tests leave threads behind.
    System.exit(0);
  }

  @Override
  public void executionSkipped(TestIdentifier test, String reason) {
    tell("skipped", test, Optional.empty());
  }

  @Override
  public void executionFinished(TestIdentifier test, TestExecutionResult result) {
    boolean successful = result.getStatus() == TestExecutionResult.Status.SUCCESSFUL;
    // A class or an environment counts only when its own set-up or clean-up has failed.
    if (test.isTest() || !successful) {
      tell(result.getStatus().name().toLowerCase(Locale.ROOT), test, result.getThrowable());
    }
  }

  private static void tell(String outcome, TestIdentifier test, Optional<Throwable> failure) {
    String kind = failure.map(thrown -> thrown.getClass().getSimpleName()).orElse("");
    String message = failure.map(thrown -> String.valueOf(thrown.getMessage())).orElse("");
    System.out.println(
        String.join("\t", outcome, test.getUniqueId(), kind, message.replaceAll("\\s+", " ")));
  }
}
