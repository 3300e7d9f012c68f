//! The names of the contract: which package, version and interfaces this host serves.

use crate::{error::LoadError, text::short};

/// The package, and the part of its version that patch releases do not change.
pub(crate) const PACKAGE: &str = "tanist:policy";
pub(crate) const VERSION: &str = "0.1.0";
const SERIES: &str = "0.1.";
/// The interfaces of the package. The last one is called for scripts only.
const INTERFACES: [&str; 7] = ["types", "about", "election", "placement", "recovery", "notes", "interpreter"];

/// The interfaces of the contract that a component imports or exports, without package and version.
#[derive(Debug)]
pub(crate) struct Interfaces(Vec<String>);

impl Interfaces {
    /// Those among these names. Names of other packages are left out.
    ///
    /// # Errors
    /// A name of the contract that this host does not serve.
    pub(crate) fn of<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<Self, LoadError> {
        let ours = names.into_iter().filter(|name| name.starts_with("tanist:"));
        ours.map(served).collect::<Result<_, _>>().map(Self)
    }

    /// Whether it is among them.
    pub(crate) fn has(&self, interface: &str) -> bool {
        self.0.iter().any(|each| each == interface)
    }

    /// Whether a policy may export these: it describes itself and has a decision point.
    ///
    /// # Errors
    /// What is missing.
    pub(crate) fn complete(&self) -> Result<(), LoadError> {
        if !self.has("about") {
            return Err(LoadError::LacksAbout);
        }
        if !["election", "placement", "recovery"].iter().any(|point| self.has(point)) {
            return Err(LoadError::LacksPoints);
        }
        Ok(())
    }
}

/// The interface of the contract that a name means.
fn served(name: &str) -> Result<String, LoadError> {
    let parts = name.split_once('@').and_then(|(path, version)| Some((path.split_once('/')?, version)));
    match parts {
        Some(((PACKAGE, interface), version))
            if INTERFACES.contains(&interface)
                && version.strip_prefix(SERIES).is_some_and(|patch| patch.parse::<u32>().is_ok()) =>
        {
            Ok(interface.to_owned())
        }
        _ => Err(LoadError::Unserved { name: short(name, 256), served: format!("{PACKAGE}@{VERSION}") }),
    }
}
