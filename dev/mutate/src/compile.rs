//! Builds of tests by cargo, and what its messages say.

use std::io::Read;
use std::path::{Component, Path, PathBuf};
use std::process::{Command, Stdio};

use serde::Deserialize;

/// What is built: the arguments of `cargo test` that choose it.
#[derive(Debug, Clone)]
pub struct Choice {
    /// The root of the copy.
    pub root: PathBuf,
    /// `-p NAME` and what else chooses test executables.
    pub words: Vec<String>,
}

/// An executable of tests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Executable {
    /// As cargo names it.
    pub name: String,
    /// Tests beside the code, as opposed to those of the folder `tests`.
    pub unit: bool,
    /// Of a library, which may have examples in its documentation.
    pub library: bool,
    /// Where it is.
    pub path: PathBuf,
}

/// Why there are no executables.
#[derive(Debug, thiserror::Error)]
pub enum Compile {
    /// Cargo does not start, or says something unknown.
    #[error("failed to run cargo")]
    Cargo(#[source] std::io::Error),
    /// The code has errors.
    #[error("failed to compile:\n{}", .0.iter().map(|error| error.rendered.as_str()).collect::<String>())]
    Code(Vec<CodeError>),
    /// It failed without an error of the code.
    #[error("cargo failed: {0}")]
    Other(String),
}

/// An error of the compiler.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CodeError {
    /// As the compiler prints it.
    pub rendered: String,
    /// Where it is, and what its notes point at: file from the root, first byte.
    pub places: Vec<(PathBuf, usize)>,
}

/// Builds the tests.
///
/// # Errors
/// See [`Compile`].
pub fn tests(choice: &Choice) -> Result<Vec<Executable>, Compile> {
    let mut cargo = cargo(&choice.root);
    cargo.args(["test", "--quiet", "--locked", "--no-run", "--message-format", "json"]).args(&choice.words);
    let mut child = cargo.stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().map_err(Compile::Cargo)?;
    let mut said = String::new();
    child.stdout.take().map_or(Ok(0), |mut stdout| stdout.read_to_string(&mut said)).map_err(Compile::Cargo)?;
    let status = child.wait().map_err(Compile::Cargo)?;
    let Messages { executables, errors } = Messages::of(&said);
    match (status.success(), errors.is_empty()) {
        (true, _) => Ok(executables),
        (false, false) => Err(Compile::Code(errors)),
        (false, true) => Err(Compile::Other(status.to_string())),
    }
}

/// Cargo in that folder.
pub fn cargo(root: &Path) -> Command {
    let mut cargo = Command::new("cargo");
    cargo.current_dir(root).stdin(Stdio::null());
    cargo
}

/// What cargo said in JSON.
#[derive(Debug, Default, PartialEq, Eq)]
struct Messages {
    executables: Vec<Executable>,
    errors: Vec<CodeError>,
}

impl Messages {
    /// Lines of other forms are passed over: build scripts and later versions print them.
    fn of(said: &str) -> Self {
        let mut messages = Self::default();
        for line in said.lines() {
            match serde_json::from_str(line) {
                Ok(Message::Artifact { target, profile, executable: Some(path) }) if profile.test => {
                    let is = |wanted: &str| target.kind.iter().any(|kind| kind == wanted);
                    let (unit, library) = (!is("test"), is("lib"));
                    messages.executables.push(Executable { name: target.name, unit, library, path });
                }
                Ok(Message::Diagnostic { message }) if message.level.starts_with("error") => {
                    let mut places = Vec::new();
                    message.places(&mut places);
                    // The last one only counts the others.
                    if !places.is_empty() {
                        messages
                            .errors
                            .push(CodeError { rendered: message.rendered.clone().unwrap_or_default(), places });
                    }
                }
                _ => {}
            }
        }
        messages
    }
}

#[derive(Deserialize)]
#[serde(tag = "reason")]
enum Message {
    #[serde(rename = "compiler-artifact")]
    Artifact { target: Target, profile: Profile, executable: Option<PathBuf> },
    #[serde(rename = "compiler-message")]
    Diagnostic { message: Diagnostic },
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct Target {
    kind: Vec<String>,
    name: String,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

#[derive(Deserialize)]
struct Diagnostic {
    level: String,
    rendered: Option<String>,
    spans: Vec<Span>,
    children: Vec<Diagnostic>,
}

#[derive(Deserialize)]
struct Span {
    file_name: PathBuf,
    byte_start: usize,
    expansion: Option<Box<Expansion>>,
}

#[derive(Deserialize)]
struct Expansion {
    span: Span,
}

impl Diagnostic {
    fn places(&self, found: &mut Vec<(PathBuf, usize)>) {
        for span in &self.spans {
            let mut span = Some(span);
            while let Some(Span { file_name, byte_start, expansion }) = span {
                found.push((plain(file_name), *byte_start));
                span = expansion.as_ref().map(|expansion| &expansion.span);
            }
        }
        self.children.iter().for_each(|child| child.places(found));
    }
}

/// A test may name a file of `src` by way of its own folder: `tests/../src`.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        if part != Component::ParentDir {
            plain.push(part);
        } else if !plain.pop() {
            return path.to_owned();
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn executables_of_tests_and_places_of_errors_are_read() {
        let said = [
            r#"{"reason":"compiler-artifact","target":{"kind":["lib"],"name":"a"},"profile":{"test":false},"executable":null}"#,
            r#"{"reason":"compiler-artifact","target":{"kind":["lib"],"name":"a"},"profile":{"test":true},"executable":"/a"}"#,
            r#"{"reason":"compiler-artifact","target":{"kind":["bin"],"name":"b"},"profile":{"test":false},"executable":"/bin/b"}"#,
            r#"{"reason":"compiler-artifact","target":{"kind":["test"],"name":"c"},"profile":{"test":true},"executable":"/c"}"#,
            "not of cargo",
            r#"{"reason":"compiler-message","message":{"level":"warning","rendered":"w","spans":[],"children":[]}}"#,
            r#"{"reason":"compiler-message","message":{"level":"error","rendered":"aborting","spans":[],"children":[]}}"#,
            r#"{"reason":"compiler-message","message":{"level":"error","rendered":"e","spans":[
                {"file_name":"a/tests/../src/x.rs","byte_start":3,"expansion":{"span":{"file_name":"a/src/y.rs","byte_start":5,"expansion":null}}}],
                "children":[{"level":"note","rendered":null,"spans":[{"file_name":"a/src/z.rs","byte_start":7,"expansion":null}],"children":[]}]}}"#,
            r#"{"reason":"build-finished","success":false}"#,
        ];
        let said = said.map(|line| line.replace('\n', " ")).join("\n");
        let Messages { executables, errors } = Messages::of(&said);
        let named: Vec<_> = executables.iter().map(|each| (each.name.as_str(), each.unit)).collect();
        assert_eq!(named, [("a", true), ("c", false)]);
        let place = |file: &str, byte| (PathBuf::from(file), byte);
        assert_eq!(errors.len(), 1);
        assert_eq!(errors[0].places, [place("a/src/x.rs", 3), place("a/src/y.rs", 5), place("a/src/z.rs", 7)]);
    }
}
