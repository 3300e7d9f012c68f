//! One listening port for both families.
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, ipproto, listen, socket_with, sockopt};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, TcpListener};

/// Connections that wait to be accepted.
const BACKLOG: i32 = 128;

/// Listens there. `0.0.0.0` and `[::]` both mean every address of the pod, of both families: a kubelet probes the pod's first address, which on
/// an IPv6 cluster is none of `0.0.0.0`; and the first of the two stands in the templates of living groups. Where there is no IPv6, it is
/// every IPv4 address.
pub fn on(address: SocketAddr) -> io::Result<TcpListener> {
    on_either(address, dual_stack)
}

fn on_either(address: SocketAddr, dual: impl FnOnce(u16) -> io::Result<TcpListener>) -> io::Result<TcpListener> {
    if !address.ip().is_unspecified() {
        return TcpListener::bind(address);
    }
    // A port that is taken is taken for IPv4 too, and says so.
    dual(address.port()).or_else(|_| TcpListener::bind((Ipv4Addr::UNSPECIFIED, address.port())))
}

/// std leaves it to the node's `net.ipv6.bindv6only` whether such a socket takes IPv4.
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
