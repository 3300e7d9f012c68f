//! `--broken`: operators with a rule disabled, each with the rounds that need this rule. The judge has to notice every one of them.
use crate::history::hexadecimal;
use crate::kinds::Kind;
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
use std::process::Command;
use tanist_e2e::{cache, root, run};

/// An operator without some rules.
#[derive(Debug)]
pub struct Broken {
    /// The name of this operator in messages, and in the names of its image and its archive.
    pub name: &'static str,
    /// A round that needs these rules.
    pub kind: &'static str,
    /// The rules, as the lists `CRATE/tests/mutations` name them, by crate. More than one where another layer holds the same promise: then both have to
    /// go before anything can be seen.
    pub rules: &'static [(&'static str, &'static str)],
}

/// All of them.
pub const BROKEN: [Broken; 2] = [
    Broken {
        name: "early",
        kind: "partition",
        rules: &[
            ("host/core", "May be primary: unknown"),
            ("host/core", "Promise 1: a last primary that is not proven over may be primary"),
        ],
    },
    Broken {
        name: "lowest",
        kind: "process+lag",
        rules: &[
            ("host/core", "S24: no member below the highest takes over"),
            ("host/core", "S15: no member below the high-water mark takes over"),
            ("policies/sequence", "A7: a higher number goes first"),
        ],
    },
];

/// Promises about data and primaries. A run that only failed, or was late, is not noticed.
const PROMISES: [&str; 7] =
    ["two_acknowledge", "two_writable", "others_lead", "told_to_lead", "too_soon", "missing", "illegal_history"];

/// Where broken operators are built: `CHAOS_BROKEN`.
fn folder() -> PathBuf {
    std::env::var_os("CHAOS_BROKEN").map_or_else(|| cache().join("broken"), PathBuf::from)
}

/// Builds them all, and plays a round with each.
///
/// # Errors
/// When one cannot be built, or is not noticed.
pub fn run_broken(images: &Path) -> Result<()> {
    let folder = folder();
    for broken in &BROKEN {
        build(broken, &folder).with_context(|| format!("failed to build the operator {}", broken.name))?;
    }
    let mut unnoticed = Vec::new();
    for broken in &BROKEN {
        let Broken { name, kind, .. } = broken;
        println!("an operator without: {}", sentence(broken));
        let json = folder.join(format!("{name}.json"));
        let _ = std::fs::remove_file(&json);
        let _: Kind = kind.parse()?;
        let mut play = Command::new(std::env::current_exe()?);
        play.arg("--operator").arg(image(broken)).arg("--load").arg(archive(broken, &folder));
        play.arg("--images").arg(images).args(["--kinds", kind]).arg("--json").arg(&json).arg("1");
        // It may end badly in many ways; what counts is what the judge says of it.
        play.status().context("failed to play a round")?;
        let text = std::fs::read_to_string(&json).unwrap_or_default();
        let summary: Value = serde_json::from_str(&text).unwrap_or_default();
        let found = promises(&summary);
        println!("noticed by: {}", if found.is_empty() { "nothing".into() } else { found.join(", ") });
        if found.is_empty() {
            unnoticed.push(*name);
        }
    }
    ensure!(unnoticed.is_empty(), "the judge did not notice: {}", unnoticed.join(" "));
    println!("the judge noticed each of the {} broken operators", BROKEN.len());
    Ok(())
}

fn sentence(broken: &Broken) -> String {
    broken.rules.iter().map(|(place, rule)| format!("{place}: {rule}")).collect::<Vec<_>>().join("; ")
}

fn image(broken: &Broken) -> String {
    format!("tanist.local/tanist:broken-{}", broken.name)
}

fn archive(broken: &Broken, folder: &Path) -> PathBuf {
    folder.join(format!("tanist-{}.tar", broken.name))
}

/// Which promises a summary names as violated, in order.
fn promises(summary: &Value) -> Vec<&str> {
    let said = summary.pointer("/violations").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    let mut names: Vec<_> = said.filter_map(|violation| violation.split(": ").nth(1)).collect();
    names.retain(|name| PROMISES.contains(name));
    names.sort_unstable();
    names.dedup();
    names
}

/// The file below `src` and the substitution with which a list disables a rule.
fn mutation<'a>(list: &'a str, rule: &str) -> Option<(&'a str, &'a str)> {
    let line = list.lines().find_map(|line| line.strip_prefix(rule)?.strip_prefix('~'))?;
    line.split_once('~')
}

/// A mutation that changes nothing is an error: the list and the code have parted.
fn disable(copy: &Path, place: &str, rule: &str) -> Result<()> {
    let list = std::fs::read_to_string(copy.join(place).join("tests/mutations"))?;
    let (file, change) =
        mutation(&list, rule).with_context(|| format!("{place}/tests/mutations has no rule '{rule}'"))?;
    let file = copy.join(place).join("src").join(file);
    let before = std::fs::read(&file)?;
    run(Command::new("perl").args(["-0pi", "-e", change]).arg(&file))?;
    ensure!(before != std::fs::read(&file)?, "'{rule}' changes nothing in {}", file.display());
    Ok(())
}

/// An image that is there already is built of the same sources without the same rules.
fn build(broken: &Broken, folder: &Path) -> Result<()> {
    // The copy has one place, so that cargo builds only what a mutation changed.
    let copy = folder.join("copy");
    std::fs::create_dir_all(&copy)?;
    let (archive, key_file) = (archive(broken, folder), folder.join(format!("{}.key", broken.name)));
    let key = key(broken)?;
    if archive.exists() && std::fs::read_to_string(&key_file).is_ok_and(|known| known == key) {
        return Ok(());
    }
    copy_files(&copy)?;
    for (place, rule) in broken.rules {
        disable(&copy, place, rule)?;
    }
    let target = folder.join("target");
    std::fs::create_dir_all(&target)?;
    // Its times are those of the last change: dev/env.sh of the copy must not touch all.
    std::fs::write(target.join("checkout"), format!("{}\n", copy.display()))?;
    println!("building the operator without: {} (some 10 minutes the first time on two cores)", sentence(broken));
    let program = |name: &str, arguments: &[&str]| {
        let path = if name == "cargo" { PathBuf::from(name) } else { copy.join(name) };
        run(Command::new(path).args(arguments).current_dir(&copy).env("CARGO_TARGET_DIR", &target))
    };
    program("policies/build.sh", &["sequence", "starlark"])?;
    program("cargo", &["build", "--locked", "--workspace", "--bin", "tanist"])?;
    program("cargo", &["build", "--locked", "-p", "tanist-run", "--profile", "runner"])?;
    program("deploy/image", &[&archive.to_string_lossy(), "--name", &image(broken)])?;
    std::fs::write(key_file, key)?;
    Ok(())
}

/// What it is built of.
fn key(broken: &Broken) -> Result<String> {
    let mut sum = Sha256::new();
    sum.update(format!("{broken:?}"));
    for file in listed(&["host", "policies", "wit", "Cargo.toml", "Cargo.lock"])? {
        sum.update(&file);
        sum.update(std::fs::read(root().join(&file)).unwrap_or_default());
    }
    Ok(hexadecimal(&sum.finalize(), 64))
}

/// The files of the checkout, also those that are not committed.
fn listed(below: &[&str]) -> Result<Vec<String>> {
    let mut list = Command::new("git");
    list.arg("-C").arg(root()).args(["ls-files", "--cached", "--others", "--exclude-standard", "--"]).args(below);
    Ok(run(&mut list)?.lines().map(str::to_owned).collect())
}

/// Only what differs is copied, and what is no longer there goes.
fn copy_files(copy: &Path) -> Result<()> {
    let files = listed(&[])?;
    let found = run(Command::new("find").arg(copy).args(["-type", "f", "-printf", "%P\\n"]))?;
    for old in found.lines().filter(|old| !files.iter().any(|file| file == old)) {
        std::fs::remove_file(copy.join(old))?;
    }
    for file in files {
        let (from, to) = (root().join(&file), copy.join(&file));
        if !from.is_file() || std::fs::read(&from).ok() == std::fs::read(&to).ok() {
            continue;
        }
        std::fs::create_dir_all(to.parent().context("a file without a folder")?)?;
        std::fs::copy(&from, &to).with_context(|| format!("failed to copy {file}"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    // A run would find out only after a cluster is up.
    #[test]
    fn the_lists_of_mutations_still_have_the_rules() {
        for broken in &BROKEN {
            assert!(broken.kind.parse::<Kind>().is_ok());
            for (place, rule) in broken.rules {
                let list = std::fs::read_to_string(root().join(place).join("tests/mutations")).unwrap();
                assert!(mutation(&list, rule).is_some(), "{place}/tests/mutations has no rule '{rule}'");
            }
        }
    }

    #[test]
    fn a_rule_is_disabled_in_the_copy_or_it_is_an_error() {
        let copy = tempfile::tempdir().unwrap();
        for folder in ["crate/src", "crate/tests"] {
            std::fs::create_dir_all(copy.path().join(folder)).unwrap();
        }
        std::fs::write(copy.path().join("crate/tests/mutations"), "A~lib.rs~s/one/two/\nB~lib.rs~s/three/four/\n")
            .unwrap();
        let file = copy.path().join("crate/src/lib.rs");
        std::fs::write(&file, "one").unwrap();
        disable(copy.path(), "crate", "A").unwrap();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "two");
        assert!(disable(copy.path(), "crate", "B").is_err(), "it changes nothing");
        assert!(disable(copy.path(), "crate", "C").is_err(), "there is no such rule");
    }

    #[test]
    fn only_a_promise_about_data_or_primaries_is_noticed() {
        let summary =
            json!({"violations": ["round 1: unseen: 1: x", "round 1: missing: 2: y", "round end: missing: 1: z"]});
        assert_eq!(promises(&summary), ["missing"]);
        assert!(promises(&json!({"violations": ["round 1: silent_group: 1: x"]})).is_empty());
        assert!(promises(&Value::Null).is_empty());
    }
}
