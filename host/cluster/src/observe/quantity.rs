//! Amounts as Kubernetes writes them, for instance `1.5Gi`, `500M`, `250m` or `1e9`.

/// The bytes of an amount. A part of a byte counts as a whole one. `None`: it is no amount.
#[must_use]
pub fn bytes(text: &str) -> Option<u128> {
    parts(text, 1)
}

/// An amount in thousandths, as processors are counted. A part of one counts as a whole one. `None`: it is no amount.
#[must_use]
pub fn thousandths(text: &str) -> Option<u128> {
    parts(text, 1_000)
}

/// An amount in parts, of which that many are a whole.
fn parts(text: &str, of: u128) -> Option<u128> {
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let (number, suffix) = text.split_at_checked(end)?;
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    let digits: u128 = format!("{whole}{part}").parse().ok()?;
    let decimals = u32::try_from(part.len()).ok()?;
    let (times, shares) = factor(suffix)?;
    let shares = shares.checked_mul(10_u128.checked_pow(decimals)?)?;
    Some(digits.checked_mul(times)?.checked_mul(of)?.div_ceil(shares))
}

/// What a suffix multiplies and divides by.
fn factor(suffix: &str) -> Option<(u128, u128)> {
    let thousands = |n: u32| 1_000_u128.checked_pow(n);
    let times = match suffix {
        "" => 1,
        "n" => return Some((1, thousands(3)?)),
        "u" => return Some((1, thousands(2)?)),
        "m" => return Some((1, thousands(1)?)),
        "k" => thousands(1)?,
        "M" => thousands(2)?,
        "G" => thousands(3)?,
        "T" => thousands(4)?,
        "P" => thousands(5)?,
        "E" => thousands(6)?,
        "Ki" => 1 << 10,
        "Mi" => 1 << 20,
        "Gi" => 1 << 30,
        "Ti" => 1 << 40,
        "Pi" => 1 << 50,
        "Ei" => 1 << 60,
        exponent => {
            let power: i32 = exponent.strip_prefix(['e', 'E'])?.parse().ok()?;
            let ten = 10_u128.checked_pow(power.unsigned_abs())?;
            return Some(if power < 0 { (1, ten) } else { (ten, 1) });
        }
    };
    Some((times, 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    // As in k8s.io/apimachinery/pkg/api/resource.
    #[test]
    fn amounts_are_bytes() {
        for (text, said) in [
            ("0", 0),
            ("1024", 1_024),
            ("1Ki", 1_024),
            ("1.5Gi", 1_610_612_736),
            ("500M", 500_000_000),
            ("1e9", 1_000_000_000),
            ("1E9", 1_000_000_000),
            ("2E", 2_000_000_000_000_000_000),
            ("5e-1", 1),
            ("1500m", 2),
            ("1.0001Ki", 1_025),
            ("8Ei", 9_223_372_036_854_775_808),
            (".5Ki", 512),
            ("5.Ki", 5_120),
        ] {
            assert_eq!(bytes(text), Some(said), "{text}");
        }
    }

    #[test]
    fn amounts_are_thousandths() {
        for (text, said) in [("250m", 250), ("0.5", 500), ("2", 2_000), ("1u", 1), ("1Ki", 1_024_000)] {
            assert_eq!(thousandths(text), Some(said), "{text}");
        }
        assert_eq!(thousandths("half"), None);
    }

    #[test]
    fn what_is_no_amount_has_no_bytes() {
        for text in
            ["", ".", "Gi", "-1", "1.2.3", "1gi", "1 Gi", "1e", "1e99", "99999999999999999999999999999999999999Ei"]
        {
            assert_eq!(bytes(text), None, "{text}");
        }
    }
}
