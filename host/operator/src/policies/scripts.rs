//! Makes policies of scripts. The interpreter is loaded with the first script, because it takes memory that installations without scripts need not have.
use super::Error;
use super::builtin;
use super::source::Content;
use super::store::queue::Failure;
use std::sync::Arc;
use tanist_engine::{Interpreter, Limits, LoadError, Policy};
use tokio::sync::OnceCell;

/// Loads scripts. Clones share one interpreter.
#[derive(Clone, Default)]
pub struct Scripts(Arc<OnceCell<Interpreter>>);

impl Scripts {
    /// The policy of a script: its text is parsed, and its top level runs once under the limits of a question.
    ///
    /// # Errors
    /// What is wrong with it, with file, line and column; or that the interpreter could not be loaded, which is not the script's fault.
    pub async fn policy(&self, content: Content) -> Result<Policy, Failure> {
        let interpreter = self.0.get_or_try_init(|| async {
            match tokio::task::spawn_blocking(|| builtin::interpreter(Limits::default())).await {
                Ok(Ok(interpreter)) => Ok(interpreter),
                Ok(Err(error)) => Err(error.to_string()),
                Err(_) => Err(Error::Compile.to_string()),
            }
        });
        let interpreter = interpreter.await.cloned().map_err(|why| Failure {
            why: format!("the interpreter of scripts cannot be used: {why}"),
            is_load: true,
        })?;
        let loading = tokio::task::spawn_blocking(move || of(&interpreter, &content));
        super::in_child::adopted(loading.await)
    }
}

/// The line, counted from 1, of a place in a text.
fn line_of(text: &[u8], place: usize) -> usize {
    text.iter().take(place).filter(|byte| **byte == b'\n').count().saturating_add(1)
}

fn of(interpreter: &Interpreter, content: &Content) -> Result<Policy, LoadError> {
    let text = std::str::from_utf8(&content.bytes)
        .map_err(|error| LoadError::NotText(line_of(&content.bytes, error.valid_up_to())))?;
    Policy::script(interpreter, &content.file, text)
}
