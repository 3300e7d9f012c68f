//! The flags for cluster and namespace, which every command has, as in kubectl.
use super::Session;
use super::trouble::words;
use anyhow::{Context, anyhow};
use kube::client::ClientBuilder;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;
use tanist_cluster::cluster::kube::Kube;
use tower::BoxError;
use tower::util::MapFutureLayer;

/// Deadline of a connection to the API server.
const CONNECT: Duration = Duration::from_secs(10);

/// Deadline of the first words of an answer.
const REQUEST: Duration = Duration::from_secs(30);

/// How long nothing may come on a connection whose answer has begun. The API server ends each watch before.
const SILENCE: Duration = Duration::from_secs(300);

/// The flags for cluster and namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq, clap::Args)]
pub struct Reach {
    /// The namespace. Default: that of the kubeconfig's context. For `run`: the one namespace that is watched.
    #[arg(long, short, global = true)]
    pub namespace: Option<String>,
    /// The kubeconfig. Default: $KUBECONFIG, else ~/.kube/config, else the service account of the pod.
    #[arg(long, global = true)]
    pub kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig. Default: its current context.
    #[arg(long, global = true)]
    pub context: Option<String>,
}

impl Reach {
    /// The configuration that these flags lead to.
    ///
    /// # Errors
    /// When there is none, or it cannot be read; the text says what to set.
    pub async fn config(&self) -> anyhow::Result<Config> {
        let options = KubeConfigOptions { context: self.context.clone(), ..KubeConfigOptions::default() };
        match (&self.kubeconfig, &self.context) {
            (Some(path), _) => {
                let used = match Kubeconfig::read_from(path) {
                    Ok(file) => Config::from_custom_kubeconfig(file, &options).await,
                    Err(error) => Err(error),
                };
                used.map_err(|e| anyhow!("failed to use --kubeconfig: {}", why(&e)))
            }
            (None, Some(context)) => {
                let config = Config::from_kubeconfig(&options).await;
                config.map_err(|e| anyhow!("failed to use the context {context}: {}", why(&e)))
            }
            (None, None) => {
                // Whoever has a kubeconfig does not mean the cluster that this process happens to run in, also if it cannot be used.
                if !has_kubeconfig(std::env::var_os("KUBECONFIG"), std::env::home_dir())
                    && let Ok(config) = Config::infer().await
                {
                    return Ok(config);
                }
                Config::from_kubeconfig(&options).await.map_err(|e| {
                    anyhow!("failed to find a cluster: {}; set KUBECONFIG or --kubeconfig, or run in a pod", why(&e))
                })
            }
        }
    }

    /// What a user types after the program's name to reach the same.
    fn typed(&self) -> Typed {
        let kubeconfig = self.kubeconfig.as_ref().map(|path| path.to_string_lossy());
        let flag = |name: &str, value: Option<&str>| value.map(|value| format!(" {name} {}", quoted(value)));
        let kubectl = [flag("--kubeconfig", kubeconfig.as_deref()), flag("--context", self.context.as_deref())];
        let kubectl: String = kubectl.into_iter().flatten().collect();
        let namespace = flag("-n", self.namespace.as_deref()).unwrap_or_default();
        Typed { ours: format!("{kubectl}{namespace}"), kubectl }
    }

    /// A client, and the namespace that the command is about.
    ///
    /// # Errors
    /// As [`Reach::config`], or when the configuration's certificates cannot be used.
    pub async fn connect(&self) -> anyhow::Result<(Client, String)> {
        let Session { client, namespace, .. } = self.session().await?;
        Ok((client, namespace))
    }

    /// The clients and the namespace that the command is about.
    ///
    /// # Errors
    /// As [`Reach::connect`].
    pub async fn session(&self) -> anyhow::Result<Session> {
        // Only the first command of a process counts; there is only one.
        let _ = TYPED.set(self.typed());
        let mut config = self.config().await?;
        (config.connect_timeout, config.read_timeout) = (Some(CONNECT), Some(SILENCE));
        let namespace = self.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
        let unusable = "failed to use the configuration of the cluster";
        let exec_client = Kube::exec_client(config.clone()).context(unusable)?;
        let client =
            ClientBuilder::try_from(config).context(unusable)?.with_layer(&MapFutureLayer::new(in_time)).build();
        Ok(Session { client, exec_client, namespace })
    }
}

/// Waits for the answer to a request for as long as it may take. What a watch sends then takes as long as it takes.
async fn in_time<T>(answer: impl Future<Output = Result<T, BoxError>>) -> Result<T, BoxError> {
    let late = || format!("the API server did not answer within {} s", REQUEST.as_secs());
    tokio::time::timeout(REQUEST, answer).await.unwrap_or_else(|_| Err(late().into()))
}

/// Whether the user has a kubeconfig: one that is named, or the usual one.
fn has_kubeconfig(named: Option<OsString>, home: Option<PathBuf>) -> bool {
    named.is_some_and(|paths| !paths.is_empty()) || home.is_some_and(|home| home.join(".kube/config").exists())
}

/// The flags of this command that lead to its cluster and namespace, each after a blank.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Typed {
    /// For this program.
    pub ours: String,
    /// For kubectl, without the namespace.
    pub kubectl: String,
}

static TYPED: OnceLock<Typed> = OnceLock::new();

/// The flags that lead to the cluster and namespace of this command. None, before it reached a cluster.
pub fn typed() -> &'static Typed {
    const NONE: &Typed = &Typed { ours: String::new(), kubectl: String::new() };
    TYPED.get().unwrap_or(NONE)
}

/// A word as a shell reads it.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@%+=".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

/// Why a kubeconfig cannot be used, in words: kube's own text shows a path in debug form.
fn why(error: &KubeconfigError) -> String {
    match error {
        KubeconfigError::ReadConfig(error, path) => format!("{}: {error}", path.display()),
        other => words(other),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests may")]
mod tests {
    use super::*;

    const KUBECONFIG: &str = "\
apiVersion: v1
kind: Config
current-context: one
clusters:
  - {name: a, cluster: {server: 'http://a.example.org:80'}}
  - {name: b, cluster: {server: 'http://b.example.org:80'}}
contexts:
  - {name: one, context: {cluster: a, user: u}}
  - {name: two, context: {cluster: b, user: u, namespace: shop}}
users:
  - {name: u, user: {}}
";

    // As kubectl: the flag, then the context's, then default.
    #[tokio::test]
    async fn context_and_namespace_are_honoured() {
        let path = std::env::temp_dir().join(format!("tanist-reach-{}", std::process::id()));
        std::fs::write(&path, KUBECONFIG).unwrap();
        let reach = |context: Option<&str>, namespace: Option<&str>| Reach {
            kubeconfig: Some(path.clone()),
            context: context.map(Into::into),
            namespace: namespace.map(Into::into),
        };
        let seen = async |reach: Reach| {
            let config = reach.config().await.unwrap();
            (config.cluster_url.host().unwrap().to_owned(), reach.connect().await.unwrap().1)
        };
        assert_eq!(seen(reach(None, None)).await, ("a.example.org".into(), "default".into()));
        assert_eq!(seen(reach(Some("two"), None)).await, ("b.example.org".into(), "shop".into()));
        assert_eq!(seen(reach(Some("two"), Some("x"))).await, ("b.example.org".into(), "x".into()));
        let wrong = reach(Some("three"), None).config().await.err().map(|e| format!("{e:#}")).unwrap();
        assert!(wrong.contains("failed to use --kubeconfig") && wrong.contains("three"), "{wrong}");
        let none = Reach { kubeconfig: Some("/nonexistent/config".into()), ..Reach::default() };
        let said = none.config().await.err().map(|e| e.to_string()).unwrap();
        assert_eq!(said.matches("No such file").count(), 1, "{said}");
        assert!(!said.contains('"'), "{said}");
        std::fs::remove_file(&path).unwrap();
    }

    // What is printed for a user to paste leads to the same group.
    #[test]
    fn hints_have_the_flags_that_were_given() {
        let reach = Reach {
            namespace: Some("shop".into()),
            kubeconfig: Some("/home/it's me/config".into()),
            context: Some("prod".into()),
        };
        let kubectl = " --kubeconfig '/home/it'\\''s me/config' --context prod";
        assert_eq!(reach.typed(), Typed { ours: format!("{kubectl} -n shop"), kubectl: kubectl.into() });
        assert_eq!(Reach::default().typed(), Typed::default());
    }

    // In a pod with a service account a kubeconfig that cannot be used must not lead to the pod's own cluster.
    #[test]
    fn a_kubeconfig_that_is_there_is_meant() {
        let home = tempfile::tempdir().unwrap();
        let at_home = || Some(home.path().to_owned());
        assert!(!has_kubeconfig(None, None) && !has_kubeconfig(Some("".into()), at_home()));
        assert!(has_kubeconfig(Some("/nonexistent".into()), None));
        std::fs::create_dir(home.path().join(".kube")).unwrap();
        std::fs::write(home.path().join(".kube/config"), "no yaml: [").unwrap();
        assert!(has_kubeconfig(None, at_home()));
    }

    // A load balancer that takes connections for an API server that never answers ends a command.
    #[tokio::test(start_paused = true)]
    async fn a_request_has_a_deadline() {
        let late = in_time(std::future::pending::<Result<(), BoxError>>()).await.unwrap_err();
        assert_eq!(late.to_string(), "the API server did not answer within 30 s");
        assert!(in_time(async { Ok::<_, BoxError>(()) }).await.is_ok());
    }
}
