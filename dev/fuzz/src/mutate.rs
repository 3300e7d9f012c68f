//! Changed copies of the inputs of a corpus, for runs without a guide: the same for the same seed.
use rand::Rng;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;

/// Numbers at which parsers go wrong.
const NUMBERS: [&str; 14] = [
    "0",
    "-1",
    "1",
    "00",
    "+1",
    "127",
    "255",
    "256",
    "65536",
    "2147483648",
    "4294967296",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
];

/// Bytes at which parsers go wrong.
const BYTES: [u8; 12] = [0, 1, 0x7f, 0x80, 0xff, b'\n', b' ', b':', b'"', b'{', b'[', b'\\'];

/// One to eight changes of an input of the corpus. At most `longest` bytes.
pub fn changed(random: &mut SmallRng, corpus: &[Vec<u8>], longest: usize) -> Vec<u8> {
    let pick = |random: &mut SmallRng| corpus.choose(random).cloned().unwrap_or_default();
    let mut bytes = pick(random);
    for _ in 0..random.random_range(1..=8) {
        let other = pick(random);
        change(random, &mut bytes, &other);
    }
    bytes.truncate(longest);
    bytes
}

fn change(random: &mut SmallRng, bytes: &mut Vec<u8>, other: &[u8]) {
    let (from, to) = range(random, bytes.len());
    match random.random_range(0..8) {
        0 => bytes.iter_mut().skip(from).take(1).for_each(|byte| *byte ^= 1 << random.random_range(0..8)),
        1 => bytes.iter_mut().skip(from).take(1).for_each(|byte| *byte = BYTES.choose(random).copied().unwrap_or(0)),
        2 => drop(bytes.drain(from..to)),
        3 => {
            let copy = bytes.get(from..to).unwrap_or_default().to_vec();
            bytes.splice(from..from, copy);
        }
        4 | 5 => {
            let (first, last) = range(random, other.len());
            let part = other.get(first..last).unwrap_or_default().to_vec();
            bytes.splice(from..to, part);
        }
        6 => {
            let number = NUMBERS.choose(random).copied().unwrap_or_default().bytes();
            let digits = bytes.iter().skip(from).take_while(|byte| byte.is_ascii_digit()).count();
            bytes.splice(from..from + digits, number);
        }
        _ => bytes.insert(from, random.random()),
    }
}

/// A part of so many bytes, most often a short one.
fn range(random: &mut SmallRng, length: usize) -> (usize, usize) {
    let from = random.random_range(0..=length);
    let most = if random.random_range(0..4) == 0 { length - from } else { (length - from).min(16) };
    (from, from + random.random_range(0..=most))
}
