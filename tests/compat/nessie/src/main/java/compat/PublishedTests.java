package compat;

import java.net.URI;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.projectnessie.client.ext.NessieClientResolver;
import org.projectnessie.jaxrs.tests.BaseTestNessieRest;

/** The published tests as they are; all that is ours is the address of the server. */
@ExtendWith(PublishedTests.Server.class)
public class PublishedTests extends BaseTestNessieRest {

  /** Tells every client of the tests where the server is; the tests add the API's version. */
  public static final class Server extends NessieClientResolver {
    @Override
    protected URI getBaseUri(ExtensionContext context) {
      String address = System.getProperty("compat.server", "");
      if (address.isEmpty()) {
        throw new IllegalStateException("-Dcompat.server=http://HOST:PORT/ is missing");
      }
      return URI.create(address);
    }
  }
}
