//! The webhook and its client.
//!
//! The client is as small as it can be: one kept connection, the request made beforehand, the answer read to its length and not parsed. A real
//! one also makes the request and parses the answer, so what is measured is less than a webhook costs.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    path::Path,
    process::{Child, ChildStdin, Command, Stdio},
};

use anyhow::{Context as _, bail};

/// A webhook that runs, and a connection to it.
#[derive(Debug)]
pub struct Webhook {
    child: Child,
    // It ends when this is closed.
    _open: ChildStdin,
    address: String,
    connection: BufReader<TcpStream>,
    answer: Vec<u8>,
}

/// A complete request.
#[derive(Debug)]
pub struct Request(Vec<u8>);

impl Webhook {
    pub fn start(program: &Path) -> anyhow::Result<Self> {
        let mut child = Command::new(program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("failed to start {}", program.display()))?;
        let (Some(open), Some(says)) = (child.stdin.take(), child.stdout.take()) else {
            bail!("the webhook has no pipes")
        };
        let mut address = String::new();
        BufReader::new(says).read_line(&mut address).context("the webhook did not say where it listens")?;
        let address = address.trim().to_owned();
        let connection = TcpStream::connect(&address).with_context(|| format!("failed to connect to {address}"))?;
        connection.set_nodelay(true)?;
        Ok(Self {
            child,
            _open: open,
            address,
            connection: BufReader::with_capacity(1 << 16, connection),
            answer: Vec::new(),
        })
    }

    pub fn process(&self) -> u32 {
        self.child.id()
    }

    pub fn request(&self, path: &str, body: &str) -> Request {
        let (host, length) = (&self.address, body.len());
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
        );
        Request([head.as_bytes(), body.as_bytes()].concat())
    }

    /// The body of the answer.
    pub fn ask(&mut self, request: &Request) -> anyhow::Result<&[u8]> {
        self.connection.get_mut().write_all(&request.0)?;
        let mut line = String::new();
        let mut length = 0;
        self.connection.read_line(&mut line)?;
        if !line.starts_with("HTTP/1.1 200") {
            bail!("the webhook answered {line}");
        }
        loop {
            line.clear();
            self.connection.read_line(&mut line)?;
            match line.trim_end().split_once(": ") {
                Some((key, value)) if key.eq_ignore_ascii_case("content-length") => length = value.parse()?,
                Some(_) => {}
                None => break,
            }
        }
        self.answer.resize(length, 0);
        self.connection.read_exact(&mut self.answer)?;
        Ok(&self.answer)
    }
}
