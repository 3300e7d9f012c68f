//! Where a policy of a group's stack comes from, and what is found there.
use super::Error;
use super::builtin;
use sha2::{Digest as _, Sha256};
use std::fmt;
use std::sync::Arc;
use tanist_api::spec::Policy as PolicySpec;

/// A source that is read. The same ConfigMap or file in another namespace is another source, so that namespaces do not wait for each other.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// A component that is embedded in the binary. It is ready before the first round.
    Builtin(String),
    /// A script that is embedded in the binary. It is loaded when a group names it, and copied like one of a `ConfigMap`: the next version of the
    /// operator may bring another text under this name.
    BuiltinScript {
        /// The namespace of the groups that use it.
        namespace: String,
        /// Its name in `spec.policies[].builtin`.
        name: String,
    },
    /// A key of a labelled `ConfigMap`.
    ConfigMap {
        /// The namespace of the group and of the `ConfigMap`.
        namespace: String,
        /// The name of the `ConfigMap`.
        name: String,
        /// The key in `binaryData` or `data`.
        key: String,
    },
    /// A file in the policy directory.
    File {
        /// The namespace of the groups that use it.
        namespace: String,
        /// The name of the file.
        name: String,
    },
}

impl Origin {
    /// The source that a group's spec names.
    ///
    /// # Errors
    /// When it names none, several, or one that this version does not have or cannot read.
    pub fn of(namespace: &str, spec: &PolicySpec) -> Result<Self, Error> {
        let namespace = namespace.to_owned();
        match (&spec.builtin, &spec.config_map, &spec.file, &spec.image) {
            (Some(name), None, None, None) if builtin::script(name).is_some() => {
                Ok(Self::BuiltinScript { namespace, name: name.clone() })
            }
            (Some(name), None, None, None) if builtin::POLICIES.iter().any(|each| each.name == name) => {
                Ok(Self::Builtin(name.clone()))
            }
            (Some(name), None, None, None) => Err(Error::FindBuiltin(name.clone(), builtin::names())),
            (None, Some(map), None, None) => {
                Ok(Self::ConfigMap { namespace, name: map.name.clone(), key: map.key.clone() })
            }
            (None, None, Some(name), None) => Ok(Self::File { namespace, name: name.clone() }),
            (None, None, None, Some(image)) => Err(Error::FetchImage(image.clone())),
            _ => Err(Error::NameNone),
        }
    }

    /// The namespace whose share of the compilations it uses.
    #[must_use]
    pub fn namespace(&self) -> &str {
        match self {
            Self::Builtin(_) => "",
            Self::ConfigMap { namespace, .. } | Self::File { namespace, .. } => namespace,
            Self::BuiltinScript { namespace, .. } => namespace,
        }
    }
}

/// The text for a policy's source in status and logs.
#[must_use]
pub fn text(spec: &PolicySpec) -> String {
    match (&spec.builtin, &spec.config_map, &spec.file, &spec.image) {
        (Some(name), ..) => format!("builtin/{name}"),
        (_, Some(map), ..) => format!("configmap/{}/{}", map.name, map.key),
        (_, _, Some(file), _) => format!("file/{file}"),
        (.., Some(image)) => format!("image/{image}"),
        _ => "nothing".into(),
    }
}

/// What the bytes of a policy are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A WebAssembly component.
    Component,
    /// The text of a script.
    Script,
}

/// The bytes of a policy. Two contents are equal if their digests are, whatever their files are called.
#[derive(Clone)]
pub struct Content {
    /// What they are.
    pub kind: Kind,
    /// The bytes. Clones share them.
    pub bytes: Arc<[u8]>,
    /// SHA-256 of the bytes: `sha256:` and 64 hexadecimal digits; then `.star` for a script, because the same bytes as a component are something else.
    pub digest: String,
    /// What the errors of a script call it: the key or the name of the file.
    pub file: Arc<str>,
}

impl Content {
    /// The content with its digest.
    #[must_use]
    pub fn new(kind: Kind, file: &str, bytes: impl Into<Arc<[u8]>>) -> Self {
        let bytes = bytes.into();
        let digest = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let end = match kind {
            Kind::Component => "",
            Kind::Script => ".star",
        };
        Content { kind, bytes, digest: format!("sha256:{digest}{end}"), file: file.into() }
    }
}

impl Content {
    /// The same bytes under another name.
    #[must_use]
    pub fn called(&self, file: &str) -> Self {
        Content { file: file.into(), ..self.clone() }
    }
}

/// The name of the file in the text of a source, or in the key of a layer, which may have its number at the end.
#[must_use]
pub fn file_of(source: &str) -> &str {
    let file = source.rsplit('/').next().unwrap_or(source);
    file.split('#').next().unwrap_or(file)
}

impl PartialEq for Content {
    fn eq(&self, other: &Self) -> bool {
        self.digest == other.digest
    }
}

impl Eq for Content {}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Content").field("kind", &self.kind).field("digest", &self.digest).finish_non_exhaustive()
    }
}
