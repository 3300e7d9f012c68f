//! The names of the contract: which package, version and interfaces this host serves.

use crate::{error::LoadError, text::short};

/// The package, and the part of its version that patch releases do not change.
pub(crate) const PACKAGE: &str = "tanist:policy";
pub(crate) const VERSION: &str = "0.1.4";
const SERIES: &str = "0.1.";
/// The patch release of this host.
const PATCH: u32 = 4;
/// The interfaces of the package. The last one is called for scripts only.
const INTERFACES: [&str; 11] = [
    "types",
    "about",
    "election",
    "placement",
    "recovery",
    "switchover",
    "rebalance",
    "rollout",
    "scaling",
    "notes",
    "interpreter",
];
/// Those of them that have decision points.
const POINTS: [&str; 7] = ["election", "placement", "recovery", "switchover", "rebalance", "rollout", "scaling"];

/// The interfaces of the contract that a component imports or exports, without package and version.
#[derive(Debug)]
pub(crate) struct Interfaces {
    known: Vec<String>,
    later: Vec<String>,
}

impl Interfaces {
    /// Those among these names. Names of other packages are left out.
    ///
    /// # Errors
    /// A name of the contract that this host does not serve.
    pub(crate) fn of<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<Self, LoadError> {
        let mut found = Self { known: Vec::new(), later: Vec::new() };
        for name in names.into_iter().filter(|name| name.starts_with("tanist:")) {
            match served(name)? {
                Served::Known(interface) => found.known.push(interface),
                Served::Later(name) => found.later.push(name),
            }
        }
        Ok(found)
    }

    /// Whether it is among them.
    pub(crate) fn has(&self, interface: &str) -> bool {
        self.known.iter().any(|each| each == interface)
    }

    /// The names of interfaces that a later patch release added: this host never calls them.
    pub(crate) fn later(&self) -> &[String] {
        &self.later
    }

    /// Whether a policy may export these: it describes itself and has a decision point.
    ///
    /// # Errors
    /// What is missing.
    pub(crate) fn complete(&self) -> Result<(), LoadError> {
        if !self.has("about") {
            return Err(LoadError::LacksAbout);
        }
        if !POINTS.iter().any(|point| self.has(point)) {
            return Err(LoadError::LacksPoints);
        }
        Ok(())
    }
}

enum Served {
    /// An interface that this host serves.
    Known(String),
    /// One of a later patch release, with its whole name.
    Later(String),
}

/// What a name of the contract means. Patch releases only add interfaces, so that a policy for a later one is served as far as this host knows its
/// interfaces: it goes on deciding when the operator is rolled back. A name that this release should know and does not is a mistake.
fn served(name: &str) -> Result<Served, LoadError> {
    let parts = name.split_once('@').and_then(|(path, version)| Some((path.split_once('/')?, version)));
    if let Some(((PACKAGE, interface), version)) = parts
        && let Some(patch) = version.strip_prefix(SERIES).and_then(|patch| patch.parse::<u32>().ok())
    {
        if INTERFACES.contains(&interface) {
            return Ok(Served::Known(interface.to_owned()));
        }
        if patch > PATCH {
            return Ok(Served::Later(short(name, 256)));
        }
    }
    Err(LoadError::Unserved { name: short(name, 256), served: format!("{PACKAGE}@{VERSION}") })
}
