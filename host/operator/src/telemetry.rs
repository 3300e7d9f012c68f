//! Logs, health and metrics.
use crate::context::Context;
use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;
use std::net::SocketAddr;
use std::sync::Arc;
use tracing_subscriber::EnvFilter;

/// Labels of a decision.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct DecisionLabels {
    /// The question.
    pub point: String,
    /// Who answered.
    pub policy: String,
    /// `chosen`, `nobody`, `rejected` or `broken`.
    pub result: String,
}

/// Labels of an execution.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ExecLabels {
    /// The command's name in the spec.
    pub command: String,
    /// `ok`, `failed`, `not-started` or `unknown`.
    pub result: String,
}

/// Everything that is counted.
#[derive(Debug, Clone)]
pub struct Metrics {
    registry: Arc<Registry>,
    /// Questions asked.
    pub decisions: Family<DecisionLabels, Counter>,
    /// Executions of commands.
    pub execs: Family<ExecLabels, Counter>,
    /// Answers and plans that broke a check.
    pub violations: Counter,
    /// Rounds that failed.
    pub round_errors: Counter,
    /// How long rounds take.
    pub round_seconds: Histogram,
    /// Whether this process leads.
    pub leading: Gauge,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("tanist");
        let (decisions, execs) = (Family::default(), Family::default());
        let (violations, round_errors, leading) = (Counter::default(), Counter::default(), Gauge::default());
        let round_seconds = Histogram::new(exponential_buckets(0.005, 2.0, 14));
        registry.register("decisions", "Questions put to policies", decisions.clone());
        registry.register("execs", "Commands executed in members", execs.clone());
        registry.register("check_violations", "Answers that broke a check", violations.clone());
        registry.register("round_errors", "Rounds that failed", round_errors.clone());
        registry.register("round_seconds", "Seconds that a round takes", round_seconds.clone());
        registry.register("leading", "Whether this process leads", leading.clone());
        Metrics { registry: Arc::new(registry), decisions, execs, violations, round_errors, round_seconds, leading }
    }
}

/// Starts writing logs: JSON, one object a line; `RUST_LOG` chooses what.
pub fn logs() {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info,kube=warn"));
    let started = tracing_subscriber::fmt().json().with_env_filter(filter).with_writer(std::io::stderr).try_init();
    if let Err(error) = started {
        eprintln!("logs are written by somebody else: {error}");
    }
}

/// Serves health and metrics until the process ends.
///
/// # Errors
/// When the address cannot be listened on.
pub async fn serve(ctx: Arc<Context>, listen: SocketAddr) -> std::io::Result<()> {
    let app = Router::new()
        .route("/healthz", get(|| async { "ok" }))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics))
        .with_state(ctx);
    let listener = tokio::net::TcpListener::bind(listen).await?;
    axum::serve(listener, app).await
}

/// Ready: it can take over, or leads; not while it ends.
async fn ready(State(ctx): State<Arc<Context>>) -> StatusCode {
    if ctx.is_closing() { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::OK }
}

async fn metrics(State(ctx): State<Arc<Context>>) -> Result<String, StatusCode> {
    let mut text = String::new();
    encode(&mut text, &ctx.metrics.registry).map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)?;
    Ok(text)
}
