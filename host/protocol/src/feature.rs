//! What a runner says that it can do beyond the first version (decision 0013).
use std::fmt;

/// Something that this version's runner can do and earlier ones could not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feature {
    /// `exec` knows `--if-sequence`.
    IfSequence,
    /// `exec` knows `--env`.
    Env,
}

impl Feature {
    /// Every feature of this version's runner, in the order in which it says them.
    pub const ALL: &'static [Feature] = &[Feature::IfSequence, Feature::Env];

    /// Its word: without commas and spaces.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Feature::IfSequence => "if-sequence",
            Feature::Env => "env",
        }
    }
}

/// The features of a runner as it says them: words between commas. Those of later runners stay in it and mean nothing. An earlier runner says none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Features(String);

impl Features {
    /// Those of this version.
    #[must_use]
    pub fn of_this_version() -> Features {
        let words: Vec<_> = Feature::ALL.iter().map(|feature| feature.as_str()).collect();
        Features(words.join(","))
    }

    /// Those that a runner said.
    #[must_use]
    pub fn said(words: &str) -> Features {
        Features(words.to_owned())
    }

    /// Whether a feature is among them.
    #[must_use]
    pub fn has(&self, feature: Feature) -> bool {
        self.0.split(',').any(|word| word == feature.as_str())
    }
}

impl fmt::Display for Features {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_version_has_all_of_its_features() {
        let own = Features::of_this_version();
        assert!(Feature::ALL.iter().all(|feature| own.has(*feature)));
        assert_eq!(own.to_string(), "if-sequence,env");
    }

    #[test]
    fn other_words_are_no_features() {
        for (words, has) in [("", false), ("if-sequence", true), ("a,if-sequence,b", true), ("if-sequences", false)] {
            assert_eq!(Features::said(words).has(Feature::IfSequence), has, "{words}");
        }
    }
}
