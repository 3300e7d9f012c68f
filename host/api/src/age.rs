//! Times as kubectl prints them.
use jiff::Timestamp;

/// How long ago something was, as kubectl's column AGE: 5s, 3m12s, 47m, 5h10m, 30h, 2d3h, 90d, 2y40d.
pub fn age(then: Timestamp, now: Timestamp) -> String {
    span(now.as_second().saturating_sub(then.as_second()))
}

/// A number of seconds in kubectl's form. Less than -2, which means a wrong clock: `<invalid>`.
pub fn span(seconds: i64) -> String {
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let both = |big: i64, unit: char, small: i64, part: char| match small {
        0 => format!("{big}{unit}"),
        _ => format!("{big}{unit}{small}{part}"),
    };
    match seconds {
        ..-1 => "<invalid>".into(),
        -1 => "0s".into(),
        0..120 => format!("{seconds}s"),
        _ if minutes < 10 => both(minutes, 'm', seconds % 60, 's'),
        _ if minutes < 180 => format!("{minutes}m"),
        _ if hours < 8 => both(hours, 'h', minutes % 60, 'm'),
        _ if hours < 48 => format!("{hours}h"),
        _ if hours < 24 * 8 => both(hours / 24, 'd', hours % 24, 'h'),
        _ if hours < 24 * 365 * 2 => format!("{}d", hours / 24),
        _ if hours < 24 * 365 * 8 => both(hours / 24 / 365, 'y', hours / 24 % 365, 'd'),
        _ => format!("{}y", hours / 24 / 365),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // The values of k8s.io/apimachinery/pkg/util/duration, HumanDuration.
    #[test]
    fn ages_are_printed_as_kubectl_prints_them() {
        let (minute, hour, day) = (60, 3600, 86_400);
        let year = 365 * day;
        for (seconds, text) in [
            (-2, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (5, "5s"),
            (119, "119s"),
            (2 * minute, "2m"),
            (3 * minute + 12, "3m12s"),
            (10 * minute + 59, "10m"),
            (179 * minute, "179m"),
            (3 * hour, "3h"),
            (5 * hour + 10 * minute, "5h10m"),
            (47 * hour + 59 * minute, "47h"),
            (2 * day, "2d"),
            (2 * day + 3 * hour, "2d3h"),
            (8 * day + 3 * hour, "8d"),
            (729 * day, "729d"),
            (2 * year + 40 * day, "2y40d"),
            (3 * year, "3y"),
            (8 * year + 40 * day, "8y"),
        ] {
            assert_eq!(span(seconds), text);
        }
    }

    #[test]
    fn an_age_is_the_time_between() {
        let at = |seconds| Timestamp::from_second(seconds).unwrap_or_default();
        assert_eq!(age(at(1000), at(1005)), "5s");
    }
}
