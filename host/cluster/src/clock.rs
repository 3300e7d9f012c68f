//! The operator's clock. Within a process its time never steps, even if our wall clock or the API server's does.
//!
//! It starts with the API server's time, from the first answer, and continues with the monotonic clock. So all stored times come from one clock,
//! that of the API server, and every wait lasts as long as it says (docs/safety.md, S28).
use crate::crash;
use http::header::DATE;
use http::{HeaderMap, Response};
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use tanist_core::contract::Timestamp;
use tanist_core::freshness::Moment;
use tower::util::MapResponseLayer;

/// A time, and the reading of the monotonic clock at that moment.
#[derive(Debug, Clone, Copy)]
struct Base {
    time: Timestamp,
    at: Duration,
}

/// The time for everything that is decided or stored; see the module.
pub struct Clock {
    monotonic: Box<dyn Fn() -> Duration + Send + Sync>,
    /// Seconds that are added to each time; 0 but in tests.
    ahead: i64,
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
        let clock = Clock::new(jiff::Timestamp::now().as_second(), move || began.elapsed());
        Clock { ahead: crash::clock_ahead(), ..clock }
    }
}

impl Clock {
    /// A clock that starts at `wall`, in seconds since 1970, and advances with `monotonic`.
    pub fn new(wall: Timestamp, monotonic: impl Fn() -> Duration + Send + Sync + 'static) -> Self {
        let start = Base { time: wall, at: monotonic() };
        Clock { monotonic: Box::new(monotonic), ahead: 0, start, server: OnceLock::new() }
    }

    /// Seconds since 1970 by the API server's clock; by our own until the first answer of the API server.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.after_base(|passed| passed.as_secs())
    }

    /// The same, rounded up. A wait that proves something begins here: [`Clock::now`] is up to a second too early, and the wait would be that much too short
    /// (docs/safety.md, S20, S21).
    #[must_use]
    pub fn now_or_next(&self) -> Timestamp {
        self.after_base(|passed| passed.as_secs() + u64::from(passed.subsec_nanos() > 0))
    }

    fn after_base(&self, seconds: impl FnOnce(Duration) -> u64) -> Timestamp {
        let base = self.server.get().unwrap_or(&self.start);
        let passed = seconds((self.monotonic)().saturating_sub(base.at));
        base.time.saturating_add(i64::try_from(passed).unwrap_or(i64::MAX)).saturating_add(self.ahead)
    }

    /// The present moment by the monotonic clock: how old something is.
    #[must_use]
    pub fn moment(&self) -> Moment {
        Moment::after_start((self.monotonic)())
    }

    /// Takes the time from the headers of an answer of the API server. Only the first answer with a time counts.
    pub fn take_time(&self, headers: &HeaderMap) {
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

/// A client layer that passes every answer of the API server to the clock.
pub fn listen<B>(clock: Arc<Clock>) -> MapResponseLayer<impl FnOnce(Response<B>) -> Response<B> + Clone> {
    MapResponseLayer::new(move |response: Response<B>| {
        clock.take_time(response.headers());
        response
    })
}

#[cfg(test)]
pub(crate) mod tests;
