//! Writes logs, and serves health and metrics over HTTP.
use crate::context::Context;
use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, ipproto, listen, socket_with, sockopt};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, TcpListener};
use std::sync::Arc;
use tracing_subscriber::EnvFilter;

/// The length of the queue of connections that wait to be accepted.
const BACKLOG: i32 = 128;

/// Starts writing logs: one JSON object on each line. `RUST_LOG` selects what is logged. `span` names the group and the number of its round.
pub fn logs() {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info,kube=warn"));
    let started = tracing_subscriber::fmt()
        .json()
        .with_span_list(false)
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .try_init();
    if let Err(error) = started {
        eprintln!("failed to start the logs: {error}");
    }
}

/// Serves health and metrics until the process ends.
///
/// # Errors
/// When the address cannot be listened on.
pub async fn serve(ctx: Arc<Context>, address: SocketAddr) -> std::io::Result<()> {
    let app = Router::new()
        .route("/healthz", get(|| async { "ok" }))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics))
        .with_state(ctx);
    let listener = listener(address, dual_stack)?;
    listener.set_nonblocking(true)?;
    axum::serve(tokio::net::TcpListener::from_std(listener)?, app).await
}

/// `[::]` is every address of both families, and every IPv4 address where there is no IPv6.
fn listener(
    address: SocketAddr,
    dual: impl FnOnce(u16) -> std::io::Result<TcpListener>,
) -> std::io::Result<TcpListener> {
    if address.ip() != Ipv6Addr::UNSPECIFIED {
        return TcpListener::bind(address);
    }
    // If the port is taken, binding for IPv4 fails too, and gives the error.
    dual(address.port()).or_else(|_| TcpListener::bind((Ipv4Addr::UNSPECIFIED, address.port())))
}

/// A socket that accepts IPv6 and IPv4. With std alone, the node's `net.ipv6.bindv6only` would decide about IPv4.
fn dual_stack(port: u16) -> std::io::Result<TcpListener> {
    let socket = socket_with(AddressFamily::INET6, SocketType::STREAM, SocketFlags::CLOEXEC, Some(ipproto::TCP))?;
    sockopt::set_ipv6_v6only(&socket, false)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    bind(&socket, &SocketAddrV6::new(Ipv6Addr::UNSPECIFIED, port, 0, 0))?;
    listen(&socket, BACKLOG)?;
    Ok(TcpListener::from(socket))
}

/// Ready, whether this process leads or waits; not ready while it shuts down.
async fn ready(State(ctx): State<Arc<Context>>) -> StatusCode {
    if ctx.rounds.is_closing() { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::OK }
}

async fn metrics(State(ctx): State<Arc<Context>>) -> Result<String, StatusCode> {
    ctx.metrics.text().map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{IpAddr, TcpStream};

    fn answers(listener: &TcpListener, at: impl Into<IpAddr>) -> bool {
        TcpStream::connect((at.into(), listener.local_addr().unwrap().port())).is_ok()
    }

    // The kubelet probes the pod's address, which may be of either family.
    #[test]
    fn health_is_served_in_both_families() {
        let both = listener("[::]:0".parse().unwrap(), dual_stack).unwrap();
        assert!(answers(&both, Ipv4Addr::LOCALHOST));
        if TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_ok() {
            assert!(answers(&both, Ipv6Addr::LOCALHOST));
            let port = both.local_addr().unwrap().port();
            assert!(listener(SocketAddr::from((Ipv6Addr::UNSPECIFIED, port)), dual_stack).is_err(), "it is taken");
        } else {
            eprintln!("there is no ::1 here: only the fallback is tried");
        }
        let only = listener("0.0.0.0:0".parse().unwrap(), |_| unreachable!()).unwrap();
        assert!(only.local_addr().unwrap().is_ipv4(), "0.0.0.0 is IPv4 alone");
    }

    #[test]
    fn without_ipv6_health_is_served_for_ipv4() {
        let none = |_| Err(std::io::ErrorKind::Unsupported.into());
        let fallback = listener("[::]:0".parse().unwrap(), none).unwrap();
        assert!(answers(&fallback, Ipv4Addr::LOCALHOST));
    }
}
