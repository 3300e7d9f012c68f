//! The flags for cluster and namespace, which every command has, as in kubectl.
use super::Session;
use super::trouble::words;
use anyhow::{Context, anyhow};
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};
use std::path::PathBuf;
use std::time::Duration;
use tanist_cluster::cluster::kube::Kube;

/// Deadline of a connection to the API server.
const CONNECT: Duration = Duration::from_secs(10);

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
            (None, None) => match Config::infer().await {
                Ok(config) => Ok(config),
                // Only the first cause is shown: kube's text lists both attempts at once.
                Err(_) => Config::from_kubeconfig(&options).await.map_err(|e| {
                    anyhow!("failed to find a cluster: {}; set KUBECONFIG or --kubeconfig, or run in a pod", why(&e))
                }),
            },
        }
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
        let mut config = self.config().await?;
        config.connect_timeout = Some(CONNECT);
        let namespace = self.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
        let unusable = "failed to use the configuration of the cluster";
        let exec_client = Kube::exec_client(config.clone()).context(unusable)?;
        Ok(Session { client: Client::try_from(config).context(unusable)?, exec_client, namespace })
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
}
