//! Three servers: a primary that waits for one of two standbys.
use super::machines::Machines;
use crate::background::appended;
use crate::setup::TABLES;
use anyhow::{Context, Result, ensure};
use std::io::Write;
use std::process::Stdio;
use tanist_e2e::run;

const SETTINGS: &str = "ssl = on
unix_socket_directories = '/run/postgresql'
listen_addresses = '*'
synchronous_standby_names = 'ANY 1 (*)'
wal_retrieve_retry_interval = 1s
";
const ACCESS: &str = "host all all 10.99.0.0/24 trust
host replication all 10.99.0.0/24 trust
";

impl Machines {
    /// Starts them, with the clients' tables.
    ///
    /// # Errors
    /// When one does not start.
    pub fn build_servers(&self) -> Result<()> {
        let server = |number: usize, arguments: &[&str]| run(&mut self.as_server(number, arguments)).map(drop);
        server(1, &["initdb", "-D", "/mnt/data", "-U", "postgres", "--auth=trust"])?;
        let key = ["-keyout", "/mnt/data/server.key", "-out", "/mnt/data/server.crt", "-days", "2"];
        let request = ["openssl", "req", "-new", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=x"];
        server(1, &[&request[..], &key].concat())?;
        server(1, &["chmod", "600", "/mnt/data/server.key"])?;
        for (file, text) in [("postgresql.conf", SETTINGS), ("pg_hba.conf", ACCESS)] {
            let file = self.data(1).join(file);
            ensure!(file.exists(), "{} is not there", file.display());
            appended(&file)?.write_all(text.as_bytes())?;
        }
        self.start_server(1)?;
        for number in [2, 3] {
            let copy = ["pg_basebackup", "-h", "10.99.0.1", "-U", "postgres", "-D", "/mnt/data", "-R", "-X", "stream"];
            server(number, &copy)?;
            server(number, &["chmod", "700", "/mnt/data"])?;
            self.start_server(number)?;
        }
        for table in TABLES {
            self.ask(1, &[&format!("CREATE TABLE {table}")])?;
        }
        Ok(())
    }

    /// Starts a server. It keeps the streams that it is given, so it gets none.
    ///
    /// # Errors
    /// When it does not start.
    pub fn start_server(&self, number: usize) -> Result<()> {
        let mut start = self.as_server(number, &["pg_ctl", "start", "-s", "-w", "-D", "/mnt/data", "-l", "/mnt/log"]);
        let status = start.stdout(Stdio::null()).stderr(Stdio::null()).status().context("failed to run pg_ctl")?;
        ensure!(status.success(), "server {number} did not start: pg_ctl ended with {status}");
        Ok(())
    }

    /// Executes statements on a server, and returns the lines of their answers.
    ///
    /// # Errors
    /// When one is refused.
    pub fn ask(&self, number: usize, statements: &[&str]) -> Result<String> {
        let psql = ["psql", "-X", "-q", "-A", "-t", "-h", "/run/postgresql", "-U", "postgres"];
        let statements: Vec<&str> = statements.iter().flat_map(|statement| ["-c", statement]).collect();
        run(&mut self.as_server(number, &[&psql, &statements[..]].concat()))
    }
}
