package tollgate.lab;

import org.apache.coyote.http11.AbstractHttp11Protocol;
import org.springframework.beans.factory.annotation.Value;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.boot.web.embedded.tomcat.TomcatServletWebServerFactory;
import org.springframework.boot.web.server.WebServerFactoryCustomizer;
import org.springframework.cloud.netflix.zuul.EnableZuulProxy;
import org.springframework.context.annotation.Bean;

/** Zuul 1 in a Spring Boot application. Its settings are in the application.yaml that system.yaml renders. */
@SpringBootApplication
@EnableZuulProxy
public class Gateway {
    public static void main(String[] arguments) {
        SpringApplication.run(Gateway.class, arguments);
    }

    /** Spring Boot 2.3 has no setting for these: Tomcat would close every connection after 100 requests. */
    @Bean
    WebServerFactoryCustomizer<TomcatServletWebServerFactory> keepAlive(@Value("${lab.idle-millis}") int idle) {
        return factory -> factory.addConnectorCustomizers(connector -> {
            AbstractHttp11Protocol<?> protocol = (AbstractHttp11Protocol<?>) connector.getProtocolHandler();
            protocol.setMaxKeepAliveRequests(-1);
            protocol.setKeepAliveTimeout(idle);
        });
    }
}
