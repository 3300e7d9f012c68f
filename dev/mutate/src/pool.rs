//! Work for as many threads as things are tried at a time.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

/// Does something with each, so many at a time; the results are in the same order. After an error nothing more is begun.
///
/// # Errors
/// The first error in that order.
pub fn each<T: Sync, R: Send, E: Send>(
    all: &[T],
    jobs: usize,
    work: impl Fn(&T) -> Result<R, E> + Sync,
) -> Result<Vec<R>, E> {
    let (next, has_failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    let done = Mutex::new(Vec::new());
    let take = || {
        let at = next.fetch_add(1, Ordering::Relaxed);
        all.get(at).filter(|_| !has_failed.load(Ordering::Relaxed)).map(|one| (at, one))
    };
    thread::scope(|threads| {
        for _ in 0..jobs.max(1) {
            threads.spawn(|| {
                while let Some((at, one)) = take() {
                    let result = work(one);
                    has_failed.fetch_or(result.is_err(), Ordering::Relaxed);
                    done.lock().unwrap_or_else(PoisonError::into_inner).push((at, result));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_order() {
        let all: Vec<u32> = (0..100).collect();
        assert_eq!(each(&all, 3, |number| Ok::<_, ()>(*number)), Ok(all.clone()));
    }

    #[test]
    fn after_an_error_nothing_more_is_begun() {
        let begun = AtomicUsize::new(0);
        let tried = each(&[1, 2, 3, 4], 1, |number| {
            begun.fetch_add(1, Ordering::Relaxed);
            if *number == 2 { Err(*number) } else { Ok(()) }
        });
        assert_eq!((tried, begun.into_inner()), (Err(2), 2));
    }
}
