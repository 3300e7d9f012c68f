//! `--rehearse`: clients and judge against real servers, without Kubernetes and without an operator. What a broken operator might do is done by hand: the
//! wrong standby leads, and then the old primary comes back beside it. Three network and process namespaces stand for nodes; a minute, as root.
mod machines;
mod servers;

pub use machines::{MachineArgs, machine};

use crate::background::{Background, now};
use crate::history::History;
use crate::journal::{Entry, read};
use crate::judge::{missing, no_difference, others_lead, two_acknowledge, two_writable};
use crate::play::Work;
use anyhow::{Context, Result, ensure};
use machines::Machines;
use std::collections::BTreeSet;
use std::thread::sleep;
use std::time::Duration;

const MISSING: &str = "missing";
const HISTORY: &str = "illegal_history";
const OTHERS: &str = "others_lead";
const ACKNOWLEDGE: &str = "two_acknowledge";
const WRITABLE: &str = "two_writable";

/// A stage with three servers and clients beside each.
struct Rehearsal {
    /// Ends before the machines do.
    clients: Vec<Background>,
    machines: Machines,
    history: History,
    work: Work,
}

/// Rehearses the judge: breaks servers without Kubernetes, and checks what the judge finds.
///
/// # Errors
/// When a check finds what is not there, or does not find what is.
pub fn rehearse(history: History) -> Result<()> {
    let work = Work::new()?;
    let machines = Machines::build(&work)?;
    let mut stage = Rehearsal { clients: Vec::new(), machines, history, work };
    stage.machines.build_servers()?;
    stage.begin_clients()?;
    sleep(Duration::from_secs(6));
    stage.finds("all is well", 1, now(), &[], &[MISSING, HISTORY, ACKNOWLEDGE, WRITABLE])?;

    // The first standby gets nothing for a while, and then leads.
    stage.machines.run(2, &["iptables", "-w", "-I", "INPUT", "-s", "10.99.0.1", "-p", "tcp", "-j", "DROP"])?;
    sleep(Duration::from_secs(4));
    let loss = now();
    stage.machines.run(1, &["pkill", "-KILL", "-o", "-f", "postgres -D"])?;
    sleep(Duration::from_secs(1));
    stage.machines.run(2, &["iptables", "-w", "-F"])?;
    let blind = no_difference(&stage.journal()?, loss, "pg-1", "pg-2");
    ensure!(blind.is_empty(), "{}", blind.join(", "));
    let alone =
        ["SELECT pg_promote(true)", "ALTER SYSTEM SET synchronous_standby_names = ''", "SELECT pg_reload_conf()"];
    stage.machines.ask(2, &alone)?;
    sleep(Duration::from_secs(5));
    stage.finds("the wrong standby leads", 2, loss, &[MISSING, HISTORY, OTHERS], &[ACKNOWLEDGE, WRITABLE])?;

    // The second standby still follows it: so it can acknowledge.
    stage.machines.start_server(1)?;
    sleep(Duration::from_secs(6));
    stage.finds("two lead, and both acknowledge", 2, loss, &[ACKNOWLEDGE, WRITABLE], &[])
}

impl Rehearsal {
    fn journal(&self) -> Result<Vec<Entry>> {
        read(&self.work.journal())
    }

    fn begin_clients(&mut self) -> Result<()> {
        let program = std::env::current_exe()?;
        let tools = self.work.at("tools");
        for number in 1..=3 {
            let mut command = self.machines.command(number, &[&program.to_string_lossy(), "client"]);
            command.arg(&tools).arg(format!("beside:beside-{number}")).arg(format!("look:look-{number}"));
            command.arg(format!("rw:rw-{number}:10.99.0.1"));
            self.clients.push(Background::append(&self.work.journal(), &self.work.complaints(), command)?);
        }
        Ok(())
    }

    /// Each of these checks finds something, and each of those nothing.
    fn finds(&mut self, title: &str, member: usize, since: u64, wanted: &[&str], silent: &[&str]) -> Result<()> {
        // What is acknowledged later need not be there.
        let journal = self.journal()?;
        let rows = self.machines.ask(member, &["SELECT client || '|' || id FROM chaos"])?;
        let present: BTreeSet<String> = rows.lines().map(str::to_owned).collect();
        let mut said = Vec::new();
        for (check, expected) in wanted.iter().map(|c| (*c, true)).chain(silent.iter().map(|c| (*c, false))) {
            let found: Vec<String> = match check {
                MISSING => missing(&journal, &present).into_iter().collect(),
                HISTORY => {
                    self.history.forget();
                    self.history.illegal(&journal).context("failed to check the histories")?
                }
                OTHERS => others_lead(&journal, since, "pg-1"),
                ACKNOWLEDGE => two_acknowledge(&journal),
                _ => two_writable(&journal),
            };
            let first = found.first().map_or("nothing", String::as_str);
            ensure!(found.is_empty() != expected, "{title}: {check} says: {first}");
            said.push(format!("{check} {}", found.len()));
        }
        println!("{title}: {}", said.join(" "));
        Ok(())
    }
}
