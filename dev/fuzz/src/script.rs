//! The text of a script, which the interpreter loads and asks.
use crate::sentence;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};
use tanist_core::check;
use tanist_core::examples::usual;
use tanist_core::policy::{Point, Policies, Question};
use tanist_engine::{Interpreter, Layer, Limits, Policy, Stack};

/// Bytes of a refusal: the interpreter's message, the place, and what is said around both.
const SAID: usize = 2 << 10;

/// The interpreter. `None`: it is not built; `policies/build.sh starlark` does that.
static INTERPRETER: LazyLock<Option<Interpreter>> = LazyLock::new(|| {
    let built = PathBuf::from(std::env::var_os("CARGO_TARGET_DIR")?).join("policies");
    let limits = Limits::default().unhurried();
    // What is compiled already is there in milliseconds, if this engine can use it.
    let compiled = std::fs::read(built.join("starlark.cwasm")).ok();
    let compiled = compiled.and_then(|compiled| Interpreter::from_compiled(limits, &compiled).ok());
    compiled.or_else(|| Interpreter::load(limits, &std::fs::read(built.join("starlark.wasm")).ok()?).ok())
});

/// The usual question of each point.
static QUESTIONS: LazyLock<Vec<Question>> =
    LazyLock::new(|| Point::ALL.into_iter().filter_map(|point| usual(point).0.question(point)).collect());

/// The bytes as the text of a script.
pub fn run(bytes: &[u8]) {
    assert!(INTERPRETER.is_some(), "build the interpreter: policies/build.sh starlark");
    let (Some(interpreter), Ok(text)) = (&*INTERPRETER, std::str::from_utf8(bytes)) else { return };
    let policy = match Policy::script(interpreter, "configmap/rules/mine.star", text) {
        Ok(policy) => policy,
        Err(why) => return sentence::check(&sentence::whole(&why), SAID, bytes),
    };
    assert!(interpreter.meaning("mine.star", text).is_ok(), "what is loaded has no meaning");
    let Ok(parameters) = policy.validate("{}") else { return };
    let stack = Stack::new(vec![Layer { policy: Arc::new(policy), points: None, parameters }]);
    for question in QUESTIONS.iter() {
        match stack.ask(question) {
            Ok(answered) => {
                assert!(answered.notes.iter().all(|note| note.len() <= 1 << 10));
                if let Err(why) = check::reply(question, &answered.reply) {
                    sentence::check(&why.message, SAID, bytes);
                }
            }
            Err(why) => sentence::check(&why.message, SAID, bytes),
        }
    }
}
