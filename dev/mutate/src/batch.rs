//! One build that holds many mutations.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::compile::{self, Choice, CodeError, Compile, Executable};
use crate::plan::Mutation;
use crate::switch::{self, CHOICE, Switched};

/// Files of the copy, as they were.
#[derive(Debug, Default)]
pub struct Originals(BTreeMap<PathBuf, String>);

/// Executables that hold mutations.
#[derive(Debug, Default)]
pub struct Built {
    /// None when no mutation is held.
    pub executables: Vec<Executable>,
    /// The mutations that they hold.
    pub held: BTreeSet<u32>,
    /// The others, and why.
    pub apart: BTreeMap<u32, String>,
}

/// Why there is no build.
#[derive(Debug, thiserror::Error)]
pub enum Build {
    /// A file of the copy or of the plan.
    #[error("failed to read or write {}", .0.display())]
    File(PathBuf, #[source] io::Error),
    /// A file is no Rust before it is changed.
    #[error("failed to parse {}", .0.display())]
    Parse(PathBuf, #[source] syn::Error),
    /// It does not compile, and not because of a mutation.
    #[error(transparent)]
    Compile(Compile),
}

impl Originals {
    /// The text of a file as it was before anything was written here.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn text(&mut self, path: &Path) -> Result<&str, Build> {
        if !self.0.contains_key(path) {
            self.0.insert(path.to_owned(), read(path)?);
        }
        Ok(self.0.get(path).map(String::as_str).unwrap_or_default())
    }

    /// Writes a file, unless it has that text: what is not written is not built.
    ///
    /// # Errors
    /// It cannot be read or written.
    pub fn write(&mut self, path: &Path, text: &str) -> Result<(), Build> {
        self.text(path)?;
        write_changed(path, text)
    }

    /// Everything is again as it was.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn restore(&self) -> Result<(), Build> {
        self.0.iter().try_for_each(|(path, text)| write_changed(path, text))
    }
}

fn read(path: &Path) -> Result<String, Build> {
    fs::read_to_string(path).map_err(|error| Build::File(path.to_owned(), error))
}

fn write_changed(path: &Path, text: &str) -> Result<(), Build> {
    if read(path)? == text {
        return Ok(());
    }
    fs::write(path, text).map_err(|error| Build::File(path.to_owned(), error))
}

/// Builds the tests once with all these mutations. What cannot be chosen at run time, or does not compile, is left out.
///
/// # Errors
/// See [`Build`].
pub fn build(choice: &Choice, mutations: &[Mutation], originals: &mut Originals) -> Result<Built, Build> {
    let mut built = Built::default();
    loop {
        let files = switched(choice, mutations, originals, &mut built)?;
        built.held = mutations.iter().map(|mutation| mutation.number).collect();
        built.held.retain(|number| !built.apart.contains_key(number));
        if built.held.is_empty() {
            originals.restore()?;
            return Ok(built);
        }
        match compile::tests(choice) {
            Ok(executables) => return Ok(Built { executables, ..built }),
            Err(Compile::Code(errors)) => {
                let blamed = blamed(&files, &errors);
                if blamed.is_empty() {
                    return Err(Build::Compile(Compile::Code(errors)));
                }
                built.apart.extend(blamed);
            }
            Err(error) => return Err(Build::Compile(error)),
        }
    }
}

/// Writes all files anew; what is known not to fit is left out.
fn switched(
    choice: &Choice,
    mutations: &[Mutation],
    originals: &mut Originals,
    built: &mut Built,
) -> Result<BTreeMap<PathBuf, Switched>, Build> {
    let mut of_file: BTreeMap<&Path, Vec<(u32, String)>> = BTreeMap::new();
    for mutation in mutations {
        let texts = of_file.entry(&mutation.file).or_default();
        if !built.apart.contains_key(&mutation.number) {
            texts.push((mutation.number, read(&mutation.mutated)?));
        }
    }
    let mut files = BTreeMap::new();
    let mut roots = BTreeSet::new();
    for (file, texts) in of_file {
        let path = choice.root.join(file);
        let switched =
            switch::switch(originals.text(&path)?, &texts).map_err(|error| Build::Parse(file.to_owned(), error))?;
        built.apart.extend(switched.unfit.iter().map(|(number, why)| (*number, why.to_string())));
        files.insert(file.to_owned(), switched);
        roots.extend(roots_of(&choice.root, file));
    }
    for root in &roots {
        let text = originals.text(&choice.root.join(root))?.to_owned();
        files.entry(root.clone()).or_insert(Switched { text, ..Switched::default() }).text.push_str(CHOICE);
    }
    for (file, switched) in &files {
        originals.write(&choice.root.join(file), &switched.text)?;
    }
    Ok(files)
}

/// The mutations in whose bodies errors are, or the notes of errors.
fn blamed(files: &BTreeMap<PathBuf, Switched>, errors: &[CodeError]) -> BTreeMap<u32, String> {
    let mut blamed = BTreeMap::new();
    for error in errors {
        for (file, at) in &error.places {
            let places = files.get(file).map(|switched| switched.places.as_slice()).unwrap_or_default();
            for (_, number) in places.iter().filter(|(range, _)| range.contains(at)) {
                let first = error.rendered.lines().next().unwrap_or_default();
                blamed.insert(*number, format!("it does not compile beside the original: {first}"));
            }
        }
    }
    blamed
}

/// The roots of the crates that a file may be a part of: the library, the program, and tests, which may take in a file of `src` by its path.
fn roots_of(root: &Path, file: &Path) -> Vec<PathBuf> {
    let folder = file.ancestors().find(|folder| root.join(folder).join("Cargo.toml").exists());
    let Some(folder) = folder else { return Vec::new() };
    let mut found = vec![folder.join("src/lib.rs"), folder.join("src/main.rs")];
    for entry in fs::read_dir(root.join(folder).join("tests")).into_iter().flatten().flatten() {
        let test = folder.join("tests").join(entry.file_name());
        found.push(if test.extension().is_some_and(|end| end == "rs") { test } else { test.join("main.rs") });
    }
    found.retain(|path| root.join(path).is_file());
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A crate of its own, whose library has this text.
    struct Crate {
        folder: tempfile::TempDir,
        originals: Originals,
    }

    impl Crate {
        fn new(text: &str) -> Self {
            let folder = tempfile::tempdir().unwrap();
            let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
            fs::create_dir_all(folder.path().join("src")).unwrap();
            fs::create_dir_all(folder.path().join("tests")).unwrap();
            write("Cargo.toml", "[package]\nname = \"a\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[workspace]\n");
            write("Cargo.lock", "version = 4\n[[package]]\nname = \"a\"\nversion = \"0.1.0\"\n");
            write("src/lib.rs", "pub mod sums;\n");
            write("src/sums.rs", text);
            write("tests/sums.rs", "#[test]\nfn sums_are_right() {\n    assert_eq!(a::sums::two(), 2);\n}\n");
            Self { folder, originals: Originals::default() }
        }

        fn build(&mut self, changes: &[(&str, &str)]) -> Result<Built, Build> {
            let path = |name: &str| self.folder.path().join(name);
            let text = fs::read_to_string(path("src/sums.rs")).unwrap();
            let mutations: Vec<_> = (1..)
                .zip(changes)
                .map(|(number, (from, to))| {
                    let mutated = path(&format!("{number}.rs"));
                    fs::write(&mutated, text.replacen(from, to, 1)).unwrap();
                    let result = path(&format!("{number}.result"));
                    Mutation { number, file: "src/sums.rs".into(), mutated, result, hints: Vec::new() }
                })
                .collect();
            let words = vec!["--target-dir".to_owned(), path("target").display().to_string()];
            build(&Choice { root: self.folder.path().to_owned(), words }, &mutations, &mut self.originals)
        }
    }

    /// Which of these a variable chooses, so that the test fails.
    fn noticed(built: &Built, numbers: &[u32]) -> Vec<u32> {
        let test = built.executables.iter().find(|each| !each.unit).unwrap();
        let fails = |number: u32| {
            let mut command = std::process::Command::new(&test.path);
            !command.env("TANIST_MUTANT", number.to_string()).output().unwrap().status.success()
        };
        numbers.iter().copied().filter(|number| fails(*number)).collect()
    }

    const SUMS: &str = "pub const ONE: u8 = 1;\npub fn two() -> u8 {\n    let one = ONE;\n    one + 1\n}\n";

    #[test]
    fn a_variable_chooses_one_and_what_does_not_compile_is_left_out() {
        let mut sums = Crate::new(SUMS);
        let changes =
            [("one + 1", "one + 2"), ("one + 1", "1 + one"), ("= 1;", "= 2;"), ("one + 1", "\"two\""), ("+ 1", "+ 3")];
        let built = sums.build(&changes).unwrap();
        assert_eq!(built.held, BTreeSet::from([1, 2, 5]));
        assert_eq!(built.apart.keys().copied().collect::<Vec<_>>(), [3, 4]);
        assert!(built.apart[&3].contains("outside"), "{:?}", built.apart);
        assert!(built.apart[&4].contains("error[E0308]"), "{:?}", built.apart);
        assert_eq!(noticed(&built, &[0, 1, 2, 5]), [1, 5]);
        sums.originals.restore().unwrap();
        assert_eq!(fs::read_to_string(sums.folder.path().join("src/sums.rs")).unwrap(), SUMS);
        assert_eq!(fs::read_to_string(sums.folder.path().join("src/lib.rs")).unwrap(), "pub mod sums;\n");
    }

    #[test]
    fn what_a_test_reaches_is_written_down() {
        let mut sums = Crate::new("pub fn two() -> u8 {\n    1 + 1\n}\npub fn three() -> u8 {\n    1 + 2\n}\n");
        let built = sums.build(&[("1 + 1", "1 + 3"), ("1 + 2", "4")]).unwrap();
        let test = built.executables.iter().find(|each| !each.unit).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let ended = std::process::Command::new(&test.path).env("TANIST_REACHED", folder.path()).output().unwrap();
        assert!(ended.status.success());
        let names = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
        assert_eq!(names.collect::<Vec<_>>(), ["1"]);
    }

    #[test]
    fn nothing_is_built_when_none_is_held() {
        let built = Crate::new(SUMS).build(&[("= 1;", "= 2;")]).unwrap();
        assert!(built.held.is_empty() && built.executables.is_empty());
    }

    #[test]
    fn errors_of_the_original_are_no_mutations() {
        let failed = Crate::new(&SUMS.replace("let one", "let wrong")).build(&[("one + 1", "2")]);
        assert!(matches!(failed, Err(Build::Compile(Compile::Code(_)))), "{failed:?}");
    }
}
