//! Begins a new policy: a folder that is complete outside of any checkout.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::error::Error;

/// The language of a new policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Language {
    /// A script in Starlark; no SDK and no build are needed.
    Starlark,
    /// A component, built with the SDK that is found there.
    Rust(Sdk),
}

/// Where the SDK of policies in Rust is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sdk {
    /// A folder of this machine.
    Path(PathBuf),
    /// A Git repository.
    Git {
        /// The URL of the repository.
        url: String,
        /// The tag that is used. Absent: the newest commit.
        tag: Option<String>,
    },
}

impl Sdk {
    /// What a user gave: a URL, or a folder that is the SDK or a checkout with it.
    ///
    /// # Errors
    /// There is no SDK.
    pub fn find(given: &str) -> Result<Self, Error> {
        if given.contains("://") || given.starts_with("git@") {
            return Ok(Self::Git { url: given.to_owned(), tag: None });
        }
        let is_sdk = |folder: &Path| {
            let manifest = fs::read_to_string(folder.join("Cargo.toml"));
            manifest.is_ok_and(|text| text.lines().any(|line| line.trim() == r#"name = "tanist-policy""#))
        };
        let given = Path::new(given);
        let found = [given.to_owned(), given.join("policies/sdk")].into_iter().find(|folder| is_sdk(folder));
        let found = found.and_then(|folder| folder.canonicalize().ok());
        found.map(Self::Path).ok_or_else(|| {
            let message =
                "is not the SDK of policies; give the folder policies/sdk of a checkout of Tanist, or a Git URL";
            Error::Usage(format!("--sdk {} {message}", given.display()))
        })
    }

    /// That of a released program, which was built from this repository: the SDK of the same release. `None`: there is no public repository, so a user has to
    /// say where the SDK is.
    #[must_use]
    pub fn of_release(repository: &str, version: &str) -> Option<Self> {
        let url = Some(repository).filter(|url| !url.is_empty())?;
        Some(Self::Git { url: url.to_owned(), tag: Some(format!("v{version}")) })
    }

    /// As a dependency in a Cargo.toml.
    fn dependency(&self) -> String {
        match self {
            Self::Path(path) => format!("path = {}", quoted(&path.display().to_string())),
            Self::Git { url, tag: None } => format!("git = {}", quoted(url)),
            Self::Git { url, tag: Some(tag) } => format!("git = {}, tag = {}", quoted(url), quoted(tag)),
        }
    }
}

/// A text of TOML. JSON's is one, too.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// A file of a project, with its text.
type File = (&'static str, String);

/// Makes the project, and returns the names of its files.
///
/// # Errors
/// The folder is there and not empty, cannot be written, or its name is no name for a policy.
pub fn create(folder: &Path, language: &Language) -> Result<Vec<&'static str>, Error> {
    let name = name(folder)?;
    if fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some()) {
        return Err(Error::Usage(format!("{} is not empty; choose another folder", folder.display())));
    }
    let files = match language {
        Language::Starlark => starlark(&name),
        Language::Rust(sdk) => rust(&name, sdk),
    };
    for (file, text) in &files {
        let path = folder.join(file);
        let failed = |source| Error::Write { path: path.clone(), source };
        fs::create_dir_all(path.parent().unwrap_or(folder)).map_err(failed)?;
        fs::write(&path, text).map_err(failed)?;
    }
    Ok(files.into_iter().map(|(file, _)| file).collect())
}

/// The policy's name: the folder's, which has to be one for a crate and for a `ConfigMap`, too.
fn name(folder: &Path) -> Result<String, Error> {
    let whole = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    let name = whole.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let allowed = |character: char| character.is_ascii_lowercase() || character.is_ascii_digit() || character == '-';
    let begins = name.starts_with(|character: char| character.is_ascii_lowercase());
    match begins && name.chars().all(allowed) && name.len() <= 50 && !name.ends_with('-') {
        true => Ok(name),
        false => Err(Error::Usage(format!(
            "the folder's name is the policy's, and {name:?} cannot be one: use lower-case letters, digits and dashes, for instance my-policy"
        ))),
    }
}

fn starlark(name: &str) -> Vec<File> {
    let of = |text: &str| text.replace("NAME", name);
    vec![
        ("policy.star", of(include_str!("../templates/starlark/policy.star"))),
        ("cases.yaml", cases("policy.star")),
        ("README.md", of(include_str!("../templates/starlark/README.md"))),
        (".github/workflows/policy.yaml", workflow("policy.star", "")),
    ]
}

fn rust(name: &str, sdk: &Sdk) -> Vec<File> {
    let of = |text: &str| text.replace("NAME", name);
    let build = "      - run: cargo test && cargo run\n";
    let manifest =
        of(include_str!("../templates/rust/Cargo.toml.in")).replace("{ SDK", &format!("{{ {}", sdk.dependency()));
    vec![
        ("Cargo.toml", manifest),
        ("rust-toolchain.toml", include_str!("../templates/rust/rust-toolchain.toml").to_owned()),
        ("src/lib.rs", include_str!("../templates/rust/src/lib.rs").to_owned()),
        ("src/component.rs", include_str!("../templates/rust/src/component.rs").to_owned()),
        ("cases.yaml", cases("policy.wasm")),
        ("README.md", of(include_str!("../templates/rust/README.md"))),
        (".gitignore", "/target\n/policy.wasm\n".to_owned()),
        (".github/workflows/policy.yaml", workflow("policy.wasm", build)),
    ]
}

fn cases(policy: &str) -> String {
    include_str!("../templates/cases.yaml").replace("POLICY", policy)
}

fn workflow(policy: &str, build: &str) -> String {
    include_str!("../templates/workflow.yaml").replace("BUILD", build).replace("POLICY", policy)
}
