//! Translates the readiness probe of a pod template into options of the runner (decision 0013).
use serde_json::{Map, Value};
use tanist_protocol::options as o;

/// A probe that the runner carries out in place of the kubelet.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Probe {
    /// Options of `tanist-run serve`.
    pub options: Vec<(&'static str, String)>,
    /// Whether it connects to the application, so that the runner needs the pod's address.
    pub connects: bool,
}

impl Probe {
    /// The options in the form that the runner reads from its environment.
    pub(super) fn lines(&self) -> String {
        o::lines(self.options.iter().flat_map(|(option, value)| [*option, value.as_str()]))
    }
}

/// The container's readiness probe, if the runner can carry it out. `None`: there is none, or the kubelet has to carry it out: gRPC, HTTPS,
/// another host than the pod, a port name that no port of the container has, or a field that this version does not know.
pub(super) fn read(container: &Map<String, Value>) -> Option<Probe> {
    let probe = container.get("readinessProbe")?.as_object()?;
    let given = |key: &str| probe.get(key).filter(|value| !value.is_null());
    let handlers = [given("exec"), given("httpGet"), given("tcpSocket"), given("grpc")];
    let (mut options, connects) = match handlers {
        [Some(exec), None, None, None] => (command(exec)?, false),
        [None, Some(get), None, None] => (http(container, get)?, true),
        [None, None, Some(tcp), None] => {
            let port = own(tcp).then(|| port(container, tcp.get("port")?)).flatten()?;
            (vec![(o::PROBE_TCP_PORT, port.to_string())], true)
        }
        _ => return None,
    };
    // A field that is missing or 0 has the API server's default.
    let numbers = [
        ("initialDelaySeconds", o::PROBE_DELAY, 0),
        ("periodSeconds", o::PROBE_PERIOD, 10),
        ("timeoutSeconds", o::PROBE_TIMEOUT, 1),
        ("successThreshold", o::PROBE_SUCCESS, 1),
        ("failureThreshold", o::PROBE_FAILURE, 3),
    ];
    for (key, option, default) in numbers {
        let number = given(key).map_or(Some(default), Value::as_u64)?;
        options.push((option, if number == 0 { default } else { number }.to_string()));
    }
    Some(Probe { options, connects })
}

fn command(exec: &Value) -> Option<Vec<(&'static str, String)>> {
    let argv = exec.get("command")?.as_array().filter(|argv| !argv.is_empty())?;
    argv.iter().map(|word| Some((o::PROBE_EXEC_ARG, word.as_str()?.to_owned()))).collect()
}

fn http(container: &Map<String, Value>, get: &Value) -> Option<Vec<(&'static str, String)>> {
    let plain = get.get("scheme").is_none_or(|scheme| scheme.is_null() || scheme == "HTTP");
    if !plain || !own(get) {
        return None;
    }
    let mut options = vec![(o::PROBE_HTTP_PORT, port(container, get.get("port")?)?.to_string())];
    let path = get.get("path").and_then(Value::as_str).unwrap_or_default();
    // Like the kubelet, this completes a path that lacks its slash.
    let slash = if path.starts_with('/') { "" } else { "/" };
    options.push((o::PROBE_HTTP_PATH, format!("{slash}{path}")));
    for header in get.get("httpHeaders").and_then(Value::as_array).into_iter().flatten() {
        let text = |key| header.get(key).and_then(Value::as_str);
        options.push((o::PROBE_HTTP_HEADER, format!("{}: {}", text("name")?, text("value").unwrap_or_default())));
    }
    // The runner refuses header values that the kubelet would send unchanged.
    let sound = options.iter().all(|(_, value)| !value.contains(char::is_control));
    sound.then_some(options)
}

/// Whether a probe connects to the pod itself.
fn own(handler: &Value) -> bool {
    handler.get("host").is_none_or(|host| host.is_null() || host == "")
}

/// A port by its number or by its name in this container.
fn port(container: &Map<String, Value>, port: &Value) -> Option<u16> {
    let number = match port {
        Value::Number(number) => number.as_u64()?,
        Value::String(name) => {
            let ports = container.get("ports").and_then(Value::as_array).into_iter().flatten();
            let named = ports
                .filter(|port| port.get("name").is_some_and(|n| n == name))
                .find_map(|port| port.get("containerPort")?.as_u64());
            named.or_else(|| name.parse().ok())?
        }
        _ => return None,
    };
    u16::try_from(number).ok().filter(|port| *port > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn options(probe: Value) -> Option<String> {
        let container =
            json!({"name": "db", "ports": [{"name": "sql", "containerPort": 3306}], "readinessProbe": probe});
        let read = read(container.as_object().unwrap())?;
        Some(read.options.iter().map(|(option, value)| format!("{option} {value}")).collect::<Vec<_>>().join(" "))
    }

    const USUAL: &str = "--probe-delay 0 --probe-period 10 --probe-timeout 1 --probe-success 1 --probe-failure 3";

    #[test]
    fn what_the_runner_can_do_becomes_options() {
        for (probe, expected) in [
            (json!({"exec": {"command": ["pg_isready", "-q"]}}), "--probe-exec-arg pg_isready --probe-exec-arg -q"),
            (json!({"tcpSocket": {"port": 5432}, "grpc": null}), "--probe-tcp-port 5432"),
            (json!({"tcpSocket": {"port": "sql", "host": ""}}), "--probe-tcp-port 3306"),
            (json!({"httpGet": {"port": "8008"}}), "--probe-http-port 8008 --probe-http-path /"),
            (
                json!({"httpGet": {"port": 80, "path": "up?a=1", "scheme": "HTTP", "httpHeaders": [{"name": "A", "value": "b c"}]}}),
                "--probe-http-port 80 --probe-http-path /up?a=1 --probe-http-header A: b c",
            ),
        ] {
            assert_eq!(options(probe), Some(format!("{expected} {USUAL}")));
        }
        let numbers = json!({"tcpSocket": {"port": 1}, "initialDelaySeconds": 2, "periodSeconds": 3, "timeoutSeconds": 0,
            "successThreshold": 5, "failureThreshold": 6});
        let expected =
            "--probe-tcp-port 1 --probe-delay 2 --probe-period 3 --probe-timeout 1 --probe-success 5 --probe-failure 6";
        assert_eq!(options(numbers), Some(expected.into()));
    }

    #[test]
    fn each_word_is_a_line() {
        let options = vec![("--probe-exec-arg", "echo 'a\nb' \\n".to_owned()), ("--probe-delay", "0".to_owned())];
        let probe = Probe { options, connects: false };
        assert_eq!(probe.lines(), "--probe-exec-arg\necho 'a\\nb' \\\\n\n--probe-delay\n0");
    }

    #[test]
    fn what_it_cannot_do_stays_the_kubelets() {
        for probe in [
            json!(null),
            json!({}),
            json!({"grpc": {"port": 1}}),
            json!({"httpGet": {"port": 1, "scheme": "HTTPS"}}),
            json!({"httpGet": {"port": 1, "host": "example.org"}}),
            json!({"httpGet": {"port": 1, "path": "/a\nb"}}),
            json!({"tcpSocket": {"port": 1, "host": "10.0.0.1"}}),
            json!({"tcpSocket": {"port": "http"}}),
            json!({"tcpSocket": {"port": 70000}}),
            json!({"exec": {"command": []}}),
            json!({"exec": {"command": ["a"]}, "tcpSocket": {"port": 1}}),
            json!({"tcpSocket": {"port": 1}, "periodSeconds": -1}),
        ] {
            assert_eq!(options(probe.clone()), None, "{probe}");
        }
    }
}
