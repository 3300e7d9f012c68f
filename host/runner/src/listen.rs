//! One listening port for IPv4 and IPv6.
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, ipproto, listen, socket_with, sockopt};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, TcpListener};

/// Connections that wait to be accepted.
const BACKLOG: i32 = 128;

/// Listens on an address. `0.0.0.0` and `[::]` both mean every address of the pod, IPv4 and IPv6: a kubelet probes the pod's first address, which is
/// an IPv6 address on an IPv6 cluster, and templates of existing groups have `0.0.0.0`. Without IPv6 it listens on every IPv4 address.
pub fn on(address: SocketAddr) -> io::Result<TcpListener> {
    on_either(address, dual_stack)
}

fn on_either(address: SocketAddr, dual: impl FnOnce(u16) -> io::Result<TcpListener>) -> io::Result<TcpListener> {
    if !address.ip().is_unspecified() {
        return TcpListener::bind(address);
    }
    // If the port is taken, binding it for IPv4 fails too, with the right error.
    dual(address.port()).or_else(|_| TcpListener::bind((Ipv4Addr::UNSPECIFIED, address.port())))
}

/// A socket that also takes IPv4. With std that would depend on the node's `net.ipv6.bindv6only`.
fn dual_stack(port: u16) -> io::Result<TcpListener> {
    let socket = socket_with(AddressFamily::INET6, SocketType::STREAM, SocketFlags::CLOEXEC, Some(ipproto::TCP))?;
    sockopt::set_ipv6_v6only(&socket, false)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    bind(&socket, &SocketAddrV6::new(Ipv6Addr::UNSPECIFIED, port, 0, 0))?;
    listen(&socket, BACKLOG)?;
    Ok(TcpListener::from(socket))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpStream;

    #[test]
    fn without_ipv6_it_listens_for_ipv4() {
        let none = |_| Err(io::Error::from(io::ErrorKind::Unsupported));
        for all in ["0.0.0.0:0", "[::]:0"] {
            let port = on_either(all.parse().unwrap(), none).unwrap();
            assert!(port.local_addr().unwrap().is_ipv4());
            TcpStream::connect((Ipv4Addr::LOCALHOST, port.local_addr().unwrap().port())).unwrap();
        }
    }

    #[test]
    fn a_port_that_is_taken_is_an_error() {
        let first = on("0.0.0.0:0".parse().unwrap()).unwrap();
        let port = first.local_addr().unwrap().port();
        assert_eq!(on(SocketAddr::from((Ipv4Addr::UNSPECIFIED, port))).unwrap_err().kind(), io::ErrorKind::AddrInUse);
    }
}
