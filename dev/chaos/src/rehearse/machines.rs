//! A machine is number 1 of its own process, mount and network namespaces, with a root file system for the server.
use crate::play::Work;
use crate::setup::unpack_rootfs;
use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, wait};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tanist_e2e::run;

/// The user of the servers.
const USER: u32 = 999;

/// Lives as a machine.
#[derive(Debug, clap::Args)]
pub struct MachineArgs {
    /// The folder of the rehearsal.
    pub work: PathBuf,
    /// The number of the machine, from 0 to 3; its files in the folder are named after it.
    pub number: usize,
}

/// Mounts its files, and buries those whose parents died: a dead server that is still listed counts as running. Number 1 takes all that runs there with it.
///
/// # Errors
/// When something cannot be mounted.
pub fn machine(args: &MachineArgs) -> Result<()> {
    let MachineArgs { work, number } = args;
    let at = |name: &str| work.join(format!("{name}{number}"));
    let root = at("root");
    mount(&["--bind"], &work.join("tools"), &root)?;
    mount(&["-t", "tmpfs"], Path::new("tmpfs"), &root.join("run"))?;
    std::fs::create_dir(root.join("run/postgresql"))?;
    mount(&["-t", "proc"], Path::new("proc"), &root.join("proc"))?;
    mount(&["-t", "tmpfs"], Path::new("tmpfs"), &root.join("dev"))?;
    std::fs::create_dir(root.join("dev/shm"))?;
    std::fs::set_permissions(root.join("dev/shm"), std::fs::Permissions::from_mode(0o1777))?;
    for device in ["null", "zero", "urandom", "random"] {
        let place = root.join("dev").join(device);
        std::fs::write(&place, "")?;
        mount(&["--bind"], &Path::new("/dev").join(device), &place)?;
    }
    mount(&["--bind"], &at("data"), &root.join("mnt"))?;
    mount(&["--bind"], &at("hostname"), &root.join("etc/hostname"))?;
    for folder in ["run/postgresql", "mnt"] {
        chown(root.join(folder), Some(USER), Some(USER))?;
    }
    std::fs::write(at("up"), "")?;
    loop {
        while let Ok(Some(_)) = wait(WaitOptions::NOHANG) {}
        sleep(Duration::from_millis(200));
    }
}

fn mount(options: &[&str], what: &Path, place: &Path) -> Result<()> {
    run(Command::new("mount").args(options).arg(what).arg(place)).map(drop)
}

/// Four machines: the first only has the bridge between the others. They end with this value.
pub struct Machines {
    work: PathBuf,
    parents: Vec<Child>,
    numbers_one: Vec<Pid>,
}

impl Drop for Machines {
    fn drop(&mut self) {
        for one in &self.numbers_one {
            let _ = kill_process(*one, Signal::KILL);
        }
        for parent in &mut self.parents {
            let _ = parent.wait();
        }
    }
}

impl Machines {
    /// Starts and connects them.
    ///
    /// # Errors
    /// When one does not start, or the root file system cannot be made.
    pub fn build(work: &Work) -> Result<Self> {
        let tools = work.at("tools");
        std::fs::set_permissions(work.path(), std::fs::Permissions::from_mode(0o755))?;
        unpack_rootfs(&tools)?;
        std::fs::write(tools.join("etc/hostname"), "")?;
        let mut machines = Machines { work: work.path().into(), parents: Vec::new(), numbers_one: Vec::new() };
        for number in 0..=3 {
            machines.start(work, number)?;
        }
        machines.connect()?;
        Ok(machines)
    }

    fn start(&mut self, work: &Work, number: usize) -> Result<()> {
        for folder in ["root", "data"] {
            std::fs::DirBuilder::new().mode(0o755).create(work.at(&format!("{folder}{number}")))?;
        }
        std::fs::write(work.at(&format!("hostname{number}")), format!("pg-{number}\n"))?;
        let mut command = Command::new("unshare");
        command.args(["--net", "--pid", "--mount", "--fork", "--kill-child=SIGKILL", "--mount-proc"]);
        command.arg(std::env::current_exe()?).arg("machine").arg(work.path()).arg(number.to_string());
        let complaints = crate::background::appended(&work.complaints())?;
        let parent = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(complaints).spawn()?;
        let id = parent.id();
        self.parents.push(parent);
        let began = Instant::now();
        while !work.at(&format!("up{number}")).exists() {
            if began.elapsed() > Duration::from_secs(10) {
                bail!("machine {number} did not start");
            }
            sleep(Duration::from_millis(50));
        }
        let children = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children"))?;
        let one = children.split_whitespace().next().and_then(|word| Pid::from_raw(word.parse().ok()?));
        self.numbers_one.push(one.context("a machine without a process")?);
        Ok(())
    }

    fn connect(&self) -> Result<()> {
        self.run(0, &["ip", "link", "add", "name", "machines", "type", "bridge"])?;
        self.run(0, &["ip", "link", "set", "machines", "up"])?;
        for number in 1..=3 {
            let (link, address) = (format!("m{number}"), format!("10.99.0.{number}/24"));
            let mut veth = Command::new("ip");
            veth.args(["link", "add", &link, "netns", &self.process(0), "type", "veth"]);
            run(veth.args(["peer", "name", "eth0", "netns", &self.process(number)]))?;
            self.run(0, &["ip", "link", "set", &link, "master", "machines", "up"])?;
            self.run(number, &["ip", "addr", "add", &address, "dev", "eth0"])?;
            self.run(number, &["ip", "link", "set", "eth0", "up"])?;
            self.run(number, &["ip", "link", "set", "lo", "up"])?;
        }
        Ok(())
    }

    fn process(&self, number: usize) -> String {
        self.numbers_one.get(number).map_or_else(String::new, |one| one.as_raw_nonzero().to_string())
    }

    /// A program inside a machine, not run yet.
    pub fn command(&self, number: usize, arguments: &[&str]) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["-t", &self.process(number), "-m", "-n", "-p"]).args(arguments).stdin(Stdio::null());
        command
    }

    /// Runs it and returns what it printed.
    ///
    /// # Errors
    /// When it fails.
    pub fn run(&self, number: usize, arguments: &[&str]) -> Result<String> {
        run(&mut self.command(number, arguments))
    }

    /// A program of the server's root file system, as its user, not run yet.
    pub fn as_server(&self, number: usize, arguments: &[&str]) -> Command {
        let root = self.work.join(format!("root{number}")).to_string_lossy().into_owned();
        let path = "PATH=/usr/lib/postgresql/15/bin:/usr/bin:/bin";
        let chroot = ["chroot", "--userspec=999:999", &root, "env", "LC_ALL=C", path];
        self.command(number, &[&chroot, arguments].concat())
    }

    /// The data of a server.
    pub fn data(&self, number: usize) -> PathBuf {
        self.work.join(format!("data{number}")).join("data")
    }
}
