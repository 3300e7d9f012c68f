//! Loads a script and asks it one question.

use std::{cell::RefCell, collections::HashMap};

use starlark::{
    environment::{FrozenModule, Globals, Module},
    eval::Evaluator,
    syntax::{AstModule, Dialect, DialectTypes},
    values::{Value, dict::DictRef, list::ListRef},
};

use crate::{
    answer::{self, Reply},
    budget, examine,
    examine::Defined,
    fault, functions, lines,
    notes::{self, Printer},
    snapshot::{self, SnapshotValue},
    words::POINTS,
    world::exports::tanist::policy::{
        interpreter::Script,
        types::{Description, Fault, Snapshot},
    },
};

/// The language: that of the specification, with statements at the top, f-strings and types; without `load`, because there is nothing to load.
pub const DIALECT: Dialect = Dialect {
    enable_def: true,
    enable_lambda: true,
    enable_load: false,
    enable_keyword_only_arguments: true,
    enable_positional_only_arguments: false,
    enable_types: DialectTypes::Enable,
    enable_load_reexport: false,
    enable_top_level_stmt: true,
    enable_f_strings: true,
    _non_exhaustive: (),
};

/// The version of a script that names none.
const NO_VERSION: &str = "0.0.0";

thread_local! {
    static GLOBALS: Globals = functions::globals();
    static LOADED: RefCell<Option<Loaded>> = const { RefCell::new(None) };
}

/// A script that was loaded.
struct Loaded {
    module: FrozenModule,
    defined: Vec<Defined>,
}

/// The syntax of a text.
fn parse(file: &str, source: String) -> Result<AstModule, Fault> {
    examine::text(file, &source)?;
    let tab = examine::first_tab(file, &source);
    AstModule::parse(file, source, &DIALECT).map_err(|error| match (fault::of(&error), tab) {
        // The parser's place is the end of the line before.
        (fault, Some(tab)) if fault.message.contains("tabs are not allowed") => fault::at(&tab, fault.message),
        (fault, _) => fault,
    })
}

/// Replaces what the language computes without a limit.
fn bounded(mut ast: AstModule, multiplies: bool) -> AstModule {
    if multiplies {
        ast.replace_binary_operators(&HashMap::from([("*".to_owned(), functions::TIMES.to_owned())]));
    }
    ast
}

/// The syntax of a text without places, white space and comments.
pub fn meaning(file: &str, source: String) -> Result<String, Fault> {
    budget::reset();
    Ok(parse(file, source)?.statement().to_string())
}

/// Parses a script, runs its top level and says what it is.
pub fn load(file: &str, source: String) -> Result<Script, Fault> {
    budget::reset();
    let multiplies = source.contains('*');
    let again = lines::is_watching().then(|| source.clone());
    let ast = parse(file, source)?;
    if let Some(again) = again {
        lines::loaded(file, again, &ast);
    }
    let defined = examine::points(&ast)?;
    let summary = examine::docstring(&ast).map(first_line).unwrap_or_default();
    let ast = bounded(ast, multiplies);
    let (module, description) = Module::with_temp_heap(|module| {
        let mut described = described(file, summary);
        {
            let mut eval = Evaluator::new(&module);
            let run = budget::limit(&mut eval, None).map_err(starlark::Error::new_other).and_then(|()| {
                eval.set_print_handler(&Printer);
                GLOBALS.with(|globals| eval.eval_module(ast, globals))?;
                describe(&module, &mut eval, &mut described)
            });
            run.map_err(|error| fault::of(&error))?;
        }
        for each in &defined {
            check(&module, each)?;
        }
        let module = module.freeze().map_err(|error| fault::of(&starlark::Error::from(error)))?;
        Ok((module, described))
    })?;
    let points = defined
        .iter()
        .filter_map(|each| POINTS.get(each.point))
        .map(|(point, interface)| format!("{interface}/{point}"))
        .collect();
    LOADED.set(Some(Loaded { module, defined }));
    Ok(Script { description, points })
}

/// Checks that a point is a function that can be given the snapshot.
fn check(module: &Module<'_>, defined: &Defined) -> Result<(), Fault> {
    let Some((point, _)) = POINTS.get(defined.point) else { return Ok(()) };
    let value = module.get(point);
    match value.map(|value| (value.get_type(), value.parameters_spec())) {
        Some((_, Some(parameters))) if parameters.can_fill_with_args(1, &[]) => Ok(()),
        Some((_, Some(_))) => {
            Err(fault::at(&defined.place, format!("{point} is asked with the snapshot alone; define it as {point}(s)")))
        }
        found => {
            let found = found.map_or("nothing", |(found, _)| found);
            Err(fault::at(
                &defined.place,
                format!("{point} is the name of a point, expected a function, found {found}"),
            ))
        }
    }
}

/// Asks a point. It abstains if the script does not define it.
pub fn ask<R: Reply>(point: &'static str, snapshot: Snapshot) -> Result<R, Fault> {
    snapshot::keep(snapshot);
    functions::asking(point);
    if let Some((file, source)) = lines::watched() {
        return ask_watched(point, &file, source);
    }
    LOADED.with_borrow(|loaded| {
        let Some(Loaded { module, defined }) = loaded else {
            return Err(Fault { message: "no script was loaded".to_owned(), location: None });
        };
        let defined = defined.iter().find(|each| POINTS.get(each.point).is_some_and(|(name, _)| *name == point));
        let function = module.get_option(point).ok().flatten();
        let (Some(defined), Some(function)) = (defined, function) else { return Ok(R::ABSTAIN) };
        Module::with_temp_heap(|scratch| {
            let mut eval = Evaluator::new(&scratch);
            budget::limit(&mut eval, None).map_err(|error| fault::of(&starlark::Error::new_other(error)))?;
            eval.set_print_handler(&Printer);
            let function = scratch.heap().access_owned_frozen_value(&function);
            let asked = scratch.heap().alloc(SnapshotValue {});
            let returned = eval.eval_function(function, &[asked], &[]).map_err(|error| fault::of(&error))?;
            answer::reply(point, returned).map_err(|message| fault::at(&defined.place, message))
        })
    })
}

/// Asks a point, and notes which lines run. The script is run once more and not frozen: in a frozen one the calls of short functions are replaced by
/// what these return, and their lines would not be seen.
fn ask_watched<R: Reply>(point: &'static str, file: &str, source: String) -> Result<R, Fault> {
    budget::reset();
    // What the top of the script printed was printed when it was loaded.
    let _ = notes::take();
    let multiplies = source.contains('*');
    let ast = bounded(parse(file, source)?, multiplies);
    let failed = |error: starlark::Error| fault::of(&error);
    Module::with_temp_heap(|module| {
        let mut eval = Evaluator::new(&module);
        budget::limit(&mut eval, Some(lines::note)).map_err(starlark::Error::new_other).map_err(failed)?;
        eval.set_print_handler(&Printer);
        GLOBALS.with(|globals| eval.eval_module(ast, globals)).map_err(failed)?;
        describe(&module, &mut eval, &mut described(file, String::new())).map_err(failed)?;
        let Some(function) = module.get(point) else { return Ok(R::ABSTAIN) };
        let asked = module.heap().alloc(SnapshotValue {});
        let returned = eval.eval_function(function, &[asked], &[]).map_err(failed)?;
        answer::reply(point, returned).map_err(|message| Fault { message, location: None })
    })
}

/// Forgets the script.
pub fn forget() {
    LOADED.set(None);
    snapshot::forget();
}

fn first_line(text: &str) -> String {
    text.trim().lines().next().unwrap_or_default().trim().to_owned()
}

/// The description of a script that has none: its file's name, and the first line of the text at its top.
fn described(file: &str, summary: String) -> Description {
    let name = file.rsplit('/').next().unwrap_or(file);
    let name = name.strip_suffix(".star").unwrap_or(name);
    Description { name: name.to_owned(), version: NO_VERSION.to_owned(), summary, parameters: None, declares: vec![] }
}

/// Adds what the script says about itself: the dictionary `parameters`, or what `describe()` returns.
fn describe<'v>(
    module: &Module<'v>,
    eval: &mut Evaluator<'v, '_, '_>,
    described: &mut Description,
) -> starlark::Result<()> {
    if let Some(parameters) = module.get("parameters") {
        described.parameters = Some(schema("parameters", parameters)?);
    }
    let Some(function) = module.get("describe") else { return Ok(()) };
    let returned = eval.eval_function(function, &[], &[])?;
    let Some(entries) = DictRef::from_value(returned) else {
        return Err(wrong(format!(
            "describe() returned a value of type {}, expected a dictionary",
            returned.get_type()
        )));
    };
    for (key, value) in entries.iter() {
        match key.unpack_str() {
            Some("name") => described.name = text("name", value)?,
            Some("version") => described.version = text("version", value)?,
            Some("summary") => described.summary = text("summary", value)?,
            Some("parameters") => described.parameters = Some(schema("describe(): parameters", value)?),
            Some("declares") => {
                let words = ListRef::from_value(value)
                    .ok_or_else(|| wrong("describe(): declares is no list of texts".to_owned()))?;
                described.declares =
                    words.iter().map(|word| text("declares", word)).collect::<starlark::Result<_>>()?;
            }
            _ => {
                let message = format!(
                    "describe() has the key {}; it may have name, version, summary, parameters and declares",
                    key.to_repr()
                );
                return Err(wrong(message));
            }
        }
    }
    Ok(())
}

fn text(what: &str, value: Value<'_>) -> starlark::Result<String> {
    value.unpack_str().map(str::to_owned).ok_or_else(|| wrong(format!("describe(): {what} is no text")))
}

/// A JSON Schema that a script wrote as a dictionary. The host checks it.
fn schema(what: &str, value: Value<'_>) -> starlark::Result<String> {
    if DictRef::from_value(value).is_none() {
        return Err(wrong(format!(
            "{what} has a value of type {}, expected a dictionary that is a JSON Schema",
            value.get_type()
        )));
    }
    value.to_json().map_err(|error| wrong(format!("{what}: {error}")))
}

fn wrong(message: String) -> starlark::Error {
    starlark::Error::new_other(anyhow::Error::msg(message))
}
