//! Tests: the cases of a folder, each asked and compared.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use serde::Serialize;
use tanist_engine::{Layer, Policy};

use crate::{
    ask::{Ran, ask, question},
    case::Cases,
    compare::{Change, as_expected, difference, matches},
    coverage::{Covered, Seen},
    error::{Error, Place},
    manifest,
    tools::{Tools, layer},
    update,
};

/// How a test is run.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The policy that is asked, in place of the one that the files name.
    pub policy: Option<PathBuf>,
    /// Whether what is expected is written anew where it differs.
    pub update: bool,
    /// Whether the lines of scripts are noted that the cases run. Each case is then asked once more, which changes no answer.
    pub coverage: bool,
}

/// What came of a test.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Tested {
    /// The files with cases, in the order of their names.
    pub files: Vec<FileTested>,
    /// The lines of each script that the cases ran, by its name. Absent: they were not noted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub coverage: Option<Vec<Covered>>,
}

/// What came of one file.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FileTested {
    /// The file as it was named.
    pub file: String,
    /// The results of the file's cases, in its order.
    pub cases: Vec<CaseTested>,
}

/// What came of one case.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CaseTested {
    /// The name of the case, or its number if it has no name.
    pub name: String,
    /// Where it begins.
    pub line: u64,
    /// Whether the answer is as expected, or is expected from now on.
    pub passed: bool,
    /// Whether what it expects was written anew.
    pub updated: bool,
    /// Why the host did not ask, or why nothing could be compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// What differs: lines that begin with `-` were expected, with `+` answered.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub difference: Vec<String>,
    /// What was asked and answered. Absent: the host did not ask.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ran: Option<Ran>,
    /// How long it took.
    #[serde(skip)]
    pub took: Duration,
}

impl Tested {
    /// The results of all cases, file by file.
    pub fn cases(&self) -> impl Iterator<Item = &CaseTested> {
        self.files.iter().flat_map(|file| &file.cases)
    }

    /// The number of cases that passed, and of all.
    #[must_use]
    pub fn counts(&self) -> (usize, usize) {
        (self.cases().filter(|case| case.passed).count(), self.cases().count())
    }
}

/// Tests the cases of a folder, or of one file.
///
/// # Errors
/// A file cannot be read or is wrong, there is no case, or the policy is not found or refused.
pub fn test(tools: &Tools, place: &Path, options: &Options) -> Result<Tested, Error> {
    let mut tested = Tested::default();
    let mut loaded = Loaded::default();
    let mut seen = options.coverage.then(Seen::default);
    // Everything is read before anything is asked or written: a typing error in the last file is not found after minutes.
    let files =
        find(place)?.iter().map(|path| Ok((path.clone(), Cases::read(path)?))).collect::<Result<Vec<_>, Error>>()?;
    for (path, cases) in files {
        tested.files.push(test_file(tools, &path, &cases, options, &mut loaded, seen.as_mut())?);
    }
    tested.coverage = seen.map(Seen::covered).transpose()?;
    Ok(tested)
}

/// The files with cases of a folder: `cases.yaml`, `NAME.cases.yaml`, and all of the folder `cases`.
fn find(place: &Path) -> Result<Vec<PathBuf>, Error> {
    if !place.is_dir() {
        return Ok(vec![place.to_owned()]);
    }
    let is_yaml = |path: &Path| path.extension().is_some_and(|end| end == "yaml" || end == "yml");
    let of_cases = |path: &Path| {
        let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        stem == "cases" || stem.ends_with(".cases")
    };
    let mut found: Vec<_> = list(place)?.into_iter().filter(|path| is_yaml(path) && of_cases(path)).collect();
    let folder = place.join("cases");
    if folder.is_dir() {
        found.extend(list(&folder)?.into_iter().filter(|path| is_yaml(path)));
    }
    if found.is_empty() {
        let place = place.display();
        return Err(Error::Usage(format!(
            "{place} has no cases: write them into {place}/cases.yaml, NAME.cases.yaml or cases/NAME.yaml (docs/policies.md)"
        )));
    }
    Ok(found)
}

/// The files of a folder, by name.
fn list(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let failed = |source| Error::Read { path: folder.to_owned(), source };
    let entries = fs::read_dir(folder).map_err(failed)?;
    let mut paths =
        entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<Vec<_>, _>>().map_err(failed)?;
    paths.retain(|path| path.is_file());
    paths.sort();
    Ok(paths)
}

/// Policies that were loaded: a component takes some time to compile.
#[derive(Default)]
pub struct Loaded(BTreeMap<PathBuf, Arc<Policy>>);

impl Loaded {
    fn get(&mut self, tools: &Tools, path: &Path) -> Result<Arc<Policy>, Error> {
        if let Some(found) = self.0.get(path) {
            return Ok(Arc::clone(found));
        }
        let policy = Arc::new(tools.load(path)?);
        self.0.insert(path.to_owned(), Arc::clone(&policy));
        Ok(policy)
    }
}

/// The stack that a case is asked of.
///
/// # Errors
/// No policy is named or found, it is refused, or the parameters do not fit it.
pub fn stack(
    tools: &Tools,
    path: &Path,
    cases: &Cases,
    index: usize,
    named: Option<&Path>,
    loaded: &mut Loaded,
) -> Result<Vec<Layer>, Error> {
    if let (None, Some(group)) = (named, &cases.content.group) {
        if let Some(own) = cases.content.cases.get(index).and_then(|case| case.value.parameters.as_ref()) {
            let message = "the parameters of a stack are those of its manifest; give them there".to_owned();
            return Err(Error::Wrong { place: cases.at(own.referenced), message });
        }
        return manifest::stack(tools, &path.with_file_name(&group.value));
    }
    let file = match (named, &cases.content.policy) {
        (Some(named), _) => named.to_owned(),
        (None, Some(policy)) => {
            let file = path.with_file_name(&policy.value);
            if !file.is_file() {
                let message = format!("there is no policy {}; build it, or correct the name", file.display());
                return Err(Error::Wrong { place: cases.at(policy.referenced), message });
            }
            file
        }
        (None, None) => beside(path)?,
    };
    let (parameters, place) = cases.parameters(index);
    Ok(vec![layer(loaded.get(tools, &file)?, &parameters, None, &place)?])
}

/// The only policy beside a file of cases, or in the folder above `cases/`.
fn beside(path: &Path) -> Result<PathBuf, Error> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder = match folder.file_name().is_some_and(|name| name == "cases") {
        true => folder.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new(".")),
        false => folder,
    };
    let is_policy = |path: &PathBuf| path.extension().is_some_and(|end| end == "star" || end == "wasm");
    let found: Vec<_> = list(folder)?.into_iter().filter(is_policy).collect();
    match found.as_slice() {
        [only] => Ok(only.clone()),
        [] => Err(Error::Wrong {
            place: Place { file: path.display().to_string(), line: 0, column: 0 },
            message: format!(
                "no policy is named, and {} has none; begin the file with `policy: FILE`",
                folder.display()
            ),
        }),
        several => {
            let names: Vec<_> = several.iter().map(|path| path.display().to_string()).collect();
            Err(Error::Wrong {
                place: Place { file: path.display().to_string(), line: 0, column: 0 },
                message: format!(
                    "there are several policies ({}); begin the file with `policy: FILE`",
                    names.join(", ")
                ),
            })
        }
    }
}

fn test_file(
    tools: &Tools,
    path: &Path,
    cases: &Cases,
    options: &Options,
    loaded: &mut Loaded,
    mut seen: Option<&mut Seen>,
) -> Result<FileTested, Error> {
    let mut tested = FileTested { file: cases.file.clone(), cases: Vec::new() };
    let mut wanted = Vec::new();
    for index in 0..cases.content.cases.len() {
        let layers = stack(tools, path, cases, index, options.policy.as_deref(), loaded)?;
        let one = test_case(cases, index, &layers);
        if let (Some(seen), Some(case)) = (&mut seen, cases.content.cases.get(index)) {
            seen.add(&layers, question(&case.value).ok().as_ref(), one.ran.as_ref())?;
        }
        if let (false, Some(ran)) = (one.passed, &one.ran)
            && let Some(case) = cases.content.cases.get(index)
        {
            let expect = case.value.expect.as_ref().map(|expect| &expect.value);
            wanted.push((index, as_expected(&ran.verdict, expect)));
        }
        tested.cases.push(one);
    }
    if options.update && !wanted.is_empty() {
        update::write(path, cases, &wanted)?;
        for (index, _) in &wanted {
            if let Some(case) = tested.cases.get_mut(*index) {
                (case.passed, case.updated) = (true, true);
            }
        }
    }
    Ok(tested)
}

fn test_case(cases: &Cases, index: usize, layers: &[Layer]) -> CaseTested {
    let mut tested = CaseTested {
        name: cases.name(index),
        line: cases.place(index).line,
        passed: false,
        updated: false,
        problem: None,
        difference: Vec::new(),
        ran: None,
        took: Duration::ZERO,
    };
    let Some(case) = cases.content.cases.get(index).map(|case| &case.value) else { return tested };
    let began = Instant::now();
    let ran = ask(case, layers);
    tested.took = began.elapsed();
    match ran {
        Err(not_asked) => tested.problem = Some(not_asked.to_string()),
        Ok(ran) => {
            let expect = case.expect.as_ref().map(|expect| &expect.value);
            match expect {
                Some(expect) => tested.passed = matches(&ran.verdict, expect),
                None => tested.problem = Some("it expects nothing; add `expect`, or run with --update".to_owned()),
            }
            if !tested.passed {
                let text = |change: Change| format!("{} {}", change.sign, change.text);
                tested.difference = difference(&ran.verdict, expect).into_iter().map(text).collect();
            }
            tested.ran = Some(ran);
        }
    }
    tested
}
