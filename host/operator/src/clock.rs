//! The one clock of the operator. Inside a process its time never steps, whatever our wall clock or the API server's does.
//!
//! It begins with the API server's time, as the first answer has it, and goes on with the monotonic clock. So what one process stores and the
//! next one reads was written by one clock, that of the API server, and what a process waits for takes as long as it says (docs/safety.md, S28).
use http::header::DATE;
use http::{HeaderMap, Response};
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use tanist_core::contract::Timestamp;
use tower::util::MapResponseLayer;

/// The monotonic clock at which a process was told the time.
#[derive(Debug, Clone, Copy)]
struct Base {
    time: Timestamp,
    at: Duration,
}

/// See the module.
pub struct Clock {
    monotonic: Box<dyn Fn() -> Duration + Send + Sync>,
    start: Base,
    server: OnceLock<Base>,
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Clock").field("start", &self.start).field("server", &self.server).finish_non_exhaustive()
    }
}

impl Default for Clock {
    fn default() -> Self {
        let began = Instant::now();
        Clock::new(jiff::Timestamp::now().as_second(), move || began.elapsed())
    }
}

impl Clock {
    /// From what our wall clock says once, in seconds since 1970, and a clock that never steps.
    pub fn new(wall: Timestamp, monotonic: impl Fn() -> Duration + Send + Sync + 'static) -> Self {
        let start = Base { time: wall, at: monotonic() };
        Clock { monotonic: Box::new(monotonic), start, server: OnceLock::new() }
    }

    /// Seconds since 1970 by the API server's clock; by our own until the API server has answered once.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        let base = self.server.get().unwrap_or(&self.start);
        let passed = (self.monotonic)().saturating_sub(base.at);
        base.time.saturating_add(i64::try_from(passed.as_secs()).unwrap_or(i64::MAX))
    }

    /// Takes the time from the headers of an answer of the API server. The first that has a time counts, later ones change nothing.
    pub fn hear(&self, headers: &HeaderMap) {
        if self.server.get().is_some() {
            return;
        }
        let date = headers.get(DATE).and_then(|date| date.to_str().ok());
        let time = date.and_then(|date| jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(date).ok());
        if let Some(time) = time {
            self.server.get_or_init(|| Base { time: time.as_second(), at: (self.monotonic)() });
        }
    }
}

/// A layer of a client, by which the clock hears what the API server answers.
pub fn listen<B>(clock: Arc<Clock>) -> MapResponseLayer<impl FnOnce(Response<B>) -> Response<B> + Clone> {
    MapResponseLayer::new(move |response: Response<B>| {
        clock.hear(response.headers());
        response
    })
}

#[cfg(test)]
pub mod tests;
