//! One text that holds all mutations of a file: the body of each function that one of them changes becomes a choice at run time.
//!
//! Text is edited by the places of the bodies, so that everything else stays as it was written, lines of the messages of tests included.

use std::collections::BTreeMap;
use std::ops::Range;

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use syn::visit_mut::VisitMut;
use syn::{Block, ImplItemFn, ItemFn, Signature, TraitItemFn};

/// What a crate's root gets: the choice, by a variable that is read once. Another variable names a folder in which a file for each mutation says that its
/// body was reached.
pub const CHOICE: &str = r#"
#[doc(hidden)]
#[allow(warnings, missing_docs)]
pub mod tanist_mutant {
    use std::sync::{LazyLock, Mutex};
    static CHOSEN: LazyLock<u32> =
        LazyLock::new(|| std::env::var("TANIST_MUTANT").ok().and_then(|number| number.parse().ok()).unwrap_or(0));
    static FOLDER: LazyLock<Option<std::ffi::OsString>> = LazyLock::new(|| std::env::var_os("TANIST_REACHED"));
    static REACHED: Mutex<std::collections::BTreeSet<u32>> = Mutex::new(std::collections::BTreeSet::new());
    pub fn is(number: u32) -> bool {
        if let Some(folder) = &*FOLDER {
            if REACHED.lock().is_ok_and(|mut reached| reached.insert(number)) {
                let _ = std::fs::File::create(std::path::Path::new(folder).join(number.to_string()));
            }
        }
        *CHOSEN == number
    }
}
"#;

/// Why a mutation cannot be chosen at run time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// Its text is no Rust.
    #[error("it cannot be parsed")]
    Parse,
    /// A constant, a type, an attribute, a macro.
    #[error("it changes something outside of functions' bodies")]
    Outside,
    /// A comment at most.
    #[error("it changes no code")]
    Nothing,
    /// Which body runs is not known when it is compiled.
    #[error("{0} is a const fn")]
    Const(String),
    /// Two bodies have two types.
    #[error("{0} returns an impl Trait")]
    Opaque(String),
}

/// A file that holds mutations.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Switched {
    /// The text of the file, with the bodies of all its mutations.
    pub text: String,
    /// Where in the text the bodies of mutations are, in bytes, with the mutation's number.
    pub places: Vec<(Range<usize>, u32)>,
    /// The mutations that it does not hold.
    pub unfit: Vec<(u32, Unfit)>,
}

/// Puts the mutated texts of a file, each with its number, into one.
///
/// # Errors
/// The original is no Rust.
pub fn switch(original: &str, mutated: &[(u32, String)]) -> syn::Result<Switched> {
    let before = Parts::of(original)?;
    let mut switched = Switched::default();
    let mut chains: BTreeMap<usize, Vec<(u32, &str)>> = BTreeMap::new();
    for (number, text) in mutated {
        match changed(&before, text) {
            Ok(bodies) => bodies.into_iter().for_each(|(at, body)| chains.entry(at).or_default().push((*number, body))),
            Err(unfit) => switched.unfit.push((*number, unfit)),
        }
    }
    let mut copied = 0;
    for (at, bodies) in chains {
        let Some(function) = before.functions.get(at) else { continue };
        switched.text.push_str(piece(original, copied..function.body.start));
        switched.text.push_str("{ ");
        for (number, body) in bodies {
            switched.text.push_str(&format!("if crate::tanist_mutant::is({number}) "));
            let start = switched.text.len();
            switched.text.push_str(body);
            switched.places.push((start..switched.text.len(), number));
            switched.text.push_str(" else ");
        }
        switched.text.push_str(piece(original, function.body.clone()));
        switched.text.push_str(" }");
        copied = function.body.end;
    }
    switched.text.push_str(piece(original, copied..original.len()));
    Ok(switched)
}

/// The bodies that the mutated text has others of than the original: which functions, and the new text of each.
fn changed<'a>(before: &Parts, mutated: &'a str) -> Result<Vec<(usize, &'a str)>, Unfit> {
    let after = Parts::of(mutated).map_err(|_| Unfit::Parse)?;
    if after.rest != before.rest || after.functions.len() != before.functions.len() {
        return Err(Unfit::Outside);
    }
    let mut bodies = Vec::new();
    for (at, (was, is)) in before.functions.iter().zip(&after.functions).enumerate() {
        if was.tokens != is.tokens {
            was.unfit.clone().map_or(Ok(()), Err)?;
            bodies.push((at, piece(mutated, is.body.clone())));
        }
    }
    if bodies.is_empty() { Err(Unfit::Nothing) } else { Ok(bodies) }
}

/// Places come from the parser, which counts in the same text.
fn piece(text: &str, range: Range<usize>) -> &str {
    text.get(range).unwrap_or_default()
}

/// A file, taken apart.
#[derive(Default)]
struct Parts {
    functions: Vec<Function>,
    /// The tokens of everything but the bodies.
    rest: String,
}

/// A function that is an item, or belongs to an `impl` or a trait. What is inside a body belongs to that body.
struct Function {
    /// Its place in the text, in bytes, with the braces.
    body: Range<usize>,
    tokens: String,
    unfit: Option<Unfit>,
}

impl Parts {
    fn of(text: &str) -> syn::Result<Self> {
        let mut file = syn::parse_file(text)?;
        let mut parts = Self::default();
        parts.visit_file_mut(&mut file);
        parts.rest = file.into_token_stream().to_string();
        Ok(parts)
    }

    /// Notes the body and leaves an empty one.
    fn take(&mut self, signature: &Signature, block: &mut Block) {
        let name = || signature.ident.to_string();
        let unfit = if signature.constness.is_some() {
            Some(Unfit::Const(name()))
        } else if names_impl(signature.output.to_token_stream()) {
            Some(Unfit::Opaque(name()))
        } else {
            None
        };
        let body = block.brace_token.span.join().byte_range();
        self.functions.push(Function { body, tokens: block.to_token_stream().to_string(), unfit });
        block.stmts.clear();
    }
}

impl VisitMut for Parts {
    fn visit_item_fn_mut(&mut self, item: &mut ItemFn) {
        self.take(&item.sig, &mut item.block);
    }

    fn visit_impl_item_fn_mut(&mut self, item: &mut ImplItemFn) {
        self.take(&item.sig, &mut item.block);
    }

    fn visit_trait_item_fn_mut(&mut self, item: &mut TraitItemFn) {
        if let Some(block) = &mut item.default {
            self.take(&item.sig, block);
        }
    }
}

/// Whether a type says `impl` at any depth.
fn names_impl(tokens: TokenStream) -> bool {
    tokens.into_iter().any(|token| match token {
        TokenTree::Ident(word) => word == "impl",
        TokenTree::Group(group) => names_impl(group.stream()),
        TokenTree::Punct(_) | TokenTree::Literal(_) => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Mutations by plain replacement, numbered from 1.
    fn switched(original: &str, changes: &[(&str, &str)]) -> Switched {
        let numbered = (1..).zip(changes);
        let texts: Vec<_> = numbered.map(|(number, (from, to))| (number, original.replacen(from, to, 1))).collect();
        switch(original, &texts).unwrap()
    }

    fn unfit(original: &str, from: &str, to: &str) -> Unfit {
        let switched = switched(original, &[(from, to)]);
        assert_eq!(switched.text, original);
        switched.unfit[0].1.clone()
    }

    #[test]
    fn a_body_becomes_a_choice_and_the_rest_stays_as_it_was_written() {
        let original = "//! Größe.\n\nfn  a( )->u8 { 1 } // one\nfn b() -> u8 { 2 }\n";
        let switched = switched(original, &[("{ 1 }", "{ 7 }")]);
        let expected = "//! Größe.\n\nfn  a( )->u8 { if crate::tanist_mutant::is(1) { 7 } else { 1 } } // one\nfn b() -> u8 { 2 }\n";
        assert_eq!(switched.text, expected);
        let (place, number) = switched.places[0].clone();
        assert_eq!((&switched.text[place], number), ("{ 7 }", 1));
        assert!(switched.unfit.is_empty());
    }

    #[test]
    fn mutations_of_one_function_are_a_chain() {
        let text = switched("fn a() -> u8 { 1 + 2 }", &[("1", "7"), ("2", "8")]).text;
        assert_eq!(
            text,
            "fn a() -> u8 { if crate::tanist_mutant::is(1) { 7 + 2 } else if crate::tanist_mutant::is(2) { 1 + 8 } else { 1 + 2 } }"
        );
    }

    #[test]
    fn a_mutation_of_two_functions_is_in_both() {
        let original = "fn a() -> u8 { 1 }\nfn b() -> u8 { 1 }";
        let text = switch(original, &[(3, original.replace("1 }", "2 }"))]).unwrap().text;
        assert_eq!(text.matches("if crate::tanist_mutant::is(3) { 2 } else { 1 }").count(), 2);
    }

    #[test]
    fn functions_are_found_wherever_they_are() {
        let original = "mod m { pub mod n { pub async fn a() -> u8 { 1 } } }\nstruct S<T>(T);\nimpl<T: Clone> S<T> { fn b<'a>(&'a self) -> T where T: Copy { self.0.clone() } }\n\
            trait U { fn c(&self) -> u8; fn d(&self) -> u8 { 4 } }\nfn e() -> u8 { fn inner() -> u8 { 5 } inner() }\n";
        let changes = [("{ 1 }", "{ 9 }"), ("self.0.clone()", "self.0"), ("{ 4 }", "{ 9 }"), ("{ 5 }", "{ 9 }")];
        let switched = switched(original, &changes);
        assert!(switched.unfit.is_empty(), "{:?}", switched.unfit);
        let numbers: Vec<_> = switched.places.iter().map(|(_, number)| *number).collect();
        assert_eq!(numbers, [1, 2, 3, 4]);
        // The inner function belongs to the body of the outer one.
        assert!(
            switched.text.contains("{ if crate::tanist_mutant::is(4) { fn inner() -> u8 { 9 } inner() } else { fn")
        );
        syn::parse_file(&switched.text).unwrap();
    }

    #[test]
    fn what_is_outside_of_bodies_is_not_switched() {
        assert_eq!(unfit("const A: u8 = 1;\nfn a() {}", "1", "2"), Unfit::Outside);
        assert_eq!(unfit("#[derive(Clone)]\nstruct A;", "Clone", "Debug"), Unfit::Outside);
        assert_eq!(unfit("fn a(b: u8) {}", "u8", "u16"), Unfit::Outside);
        assert_eq!(unfit("macro_rules! m { () => { fn a() -> u8 { 1 } } }", "1", "2"), Unfit::Outside);
        assert_eq!(unfit("fn a() {}", "fn a() {}", ""), Unfit::Outside);
        assert_eq!(unfit("fn a() -> u8 { 1 } // one", "one", "two"), Unfit::Nothing);
        assert_eq!(unfit("fn a() -> u8 { 1 }", "}", ""), Unfit::Parse);
    }

    #[test]
    fn bodies_that_cannot_be_a_choice_are_not_switched() {
        assert_eq!(unfit("const fn a() -> u8 { 1 }", "1", "2"), Unfit::Const("a".into()));
        let iterator = "fn a() -> Option<impl Iterator<Item = u8>> { Some(1..2) }";
        assert_eq!(unfit(iterator, "2", "3"), Unfit::Opaque("a".into()));
    }

    #[test]
    fn one_that_is_not_switched_keeps_no_other_from_it() {
        let switched = switched("const A: u8 = 1;\nfn a() -> u8 { 2 }", &[("1", "7"), ("2", "8")]);
        assert_eq!(switched.unfit, [(1, Unfit::Outside)]);
        assert!(switched.text.contains("is(2) { 8 } else { 2 }"));
    }
}
