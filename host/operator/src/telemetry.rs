//! Logs and health; where metrics are read.
use crate::context::Context;
use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use std::net::SocketAddr;
use std::sync::Arc;
use tracing_subscriber::EnvFilter;

/// Starts writing logs: JSON, one object a line; `RUST_LOG` chooses what. `span` says of which group and which of its rounds.
pub fn logs() {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info,kube=warn"));
    let started = tracing_subscriber::fmt()
        .json()
        .with_span_list(false)
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .try_init();
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
    ctx.metrics.text().map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)
}
