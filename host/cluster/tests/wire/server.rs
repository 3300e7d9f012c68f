//! An API server on a loopback port that leads the conversations it is told to.
use super::talk::{ACCEPT, End, Talk};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinHandle;
use tungstenite::handshake::derive_accept_key;

/// How often the server looks whether the client has gone.
const TICK: Duration = Duration::from_millis(10);

/// After so many looks the client should have gone: it was told all, or has its short deadline.
const TICKS: u32 = 6_000;

/// The most bytes of a client that are read.
const HEARD: usize = 16 * 1024;

/// The executions of one pod, in order.
#[derive(Debug, Default)]
pub struct Pod {
    /// What the server says to each request.
    pub talks: Vec<Talk>,
    /// The requests that came.
    pub heard: Mutex<Vec<String>>,
    /// What the client did and must not do.
    pub wrong: Mutex<Vec<String>>,
}

/// The API server.
pub struct Server {
    /// Where it listens.
    pub address: SocketAddr,
    /// An address at which nobody listens.
    pub nobody: SocketAddr,
    pods: Arc<Mutex<HashMap<String, Arc<Pod>>>>,
    accepting: JoinHandle<()>,
    /// It keeps the port of `nobody`.
    _taken: TcpSocket,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Server {
    pub async fn start() -> Self {
        let local: SocketAddr = ([127, 0, 0, 1], 0).into();
        let taken = TcpSocket::new_v4().unwrap();
        taken.bind(local).unwrap();
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(local).unwrap();
        let listener = socket.listen(4096).unwrap();
        let pods = Arc::<Mutex<HashMap<String, Arc<Pod>>>>::default();
        Server {
            address: listener.local_addr().unwrap(),
            nobody: taken.local_addr().unwrap(),
            accepting: tokio::spawn(accept(listener, pods.clone())),
            pods,
            _taken: taken,
        }
    }

    /// From now on there is that pod.
    pub fn add(&self, name: &str, pod: Arc<Pod>) {
        self.pods.lock().unwrap().insert(name.to_owned(), pod);
    }

    pub fn remove(&self, name: &str) {
        self.pods.lock().unwrap().remove(name);
    }
}

async fn accept(listener: TcpListener, pods: Arc<Mutex<HashMap<String, Arc<Pod>>>>) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        tokio::spawn(serve(stream, pods.clone()));
    }
}

async fn serve(mut stream: TcpStream, pods: Arc<Mutex<HashMap<String, Arc<Pod>>>>) {
    stream.set_nodelay(true).unwrap();
    let Some(head) = head(&mut stream).await else { return };
    let name = head.split("/pods/").nth(1).and_then(|rest| rest.split('/').next()).unwrap_or_default();
    let Some(pod) = pods.lock().unwrap().get(name).cloned() else { return };
    let number = {
        let mut heard = pod.heard.lock().unwrap();
        heard.push(head.clone());
        heard.len() - 1
    };
    let note = |what: String| pod.wrong.lock().unwrap().push(what);
    let Some(talk) = pod.talks.iter().filter(|talk| !talk.refused).nth(number) else {
        note(format!("request {number} was not expected"));
        return;
    };
    if !head.contains("stdout=true&stderr=true") || head.contains("stdin=") || head.contains("tty=") {
        note("it does not ask for stdout and stderr alone".to_owned());
    }
    let bytes = keyed(talk.bytes(), &head);
    // A client that has gone ends the writing.
    let _ = say(&mut stream, talk, &bytes).await;
    match talk.end {
        End::Reset => {
            stream.set_zero_linger().unwrap();
            return;
        }
        End::Close => drop(stream.shutdown().await),
        End::Silence | End::Trickle => {}
    }
    let rest = if talk.end == End::Trickle { &bytes[talk.sent..] } else { &[] };
    if !has_gone(&mut stream, rest).await {
        note(format!("the client was still there after {TICKS} looks"));
    }
}

/// The request, without its body. `None`: the client went.
async fn head(stream: &mut TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    // Until it has an answer the client says nothing else.
    while !bytes.ends_with(b"\r\n\r\n") && bytes.len() < HEARD {
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// The bytes with the accept key of the client that asked.
fn keyed(mut bytes: Vec<u8>, head: &str) -> Vec<u8> {
    let key = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("sec-websocket-key").then(|| value.trim())
    });
    let accept = derive_accept_key(key.unwrap_or_default().as_bytes());
    if let Some(at) = bytes.windows(ACCEPT.len()).position(|window| window == ACCEPT.as_bytes()) {
        bytes[at..at + ACCEPT.len()].copy_from_slice(accept.as_bytes());
    }
    bytes
}

async fn say(stream: &mut TcpStream, talk: &Talk, bytes: &[u8]) -> std::io::Result<()> {
    for part in bytes[..talk.sent].chunks(talk.step.max(1)) {
        stream.write_all(part).await?;
        tokio::task::yield_now().await;
    }
    Ok(())
}

/// Waits until the client has gone, with one byte of the rest at each look.
async fn has_gone(stream: &mut TcpStream, rest: &[u8]) -> bool {
    let (mut rest, mut buffer) = (rest.iter(), [0; 1024]);
    for _ in 0..TICKS {
        match tokio::time::timeout(TICK, stream.read(&mut buffer)).await {
            Ok(Ok(0) | Err(_)) => return true,
            Ok(Ok(_)) => continue,
            Err(_) => {}
        }
        if let Some(byte) = rest.next()
            && stream.write_all(&[*byte]).await.is_err()
        {
            return true;
        }
    }
    false
}
