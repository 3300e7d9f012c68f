//! Words for machines: enums whose variants are said as they are named.

/// Declares such an enum. Each word is written once, so no list of them can miss one.
macro_rules! words {
    ($(#[$about:meta])* pub enum $name:ident { $($(#[$doc:meta])* $word:ident,)* }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $name {
            $($(#[$doc])* $word,)*
        }

        impl $name {
            /// Every word, in this order.
            pub const ALL: &'static [$name] = &[$($name::$word),*];

            /// The word, in `CamelCase`: the name of the variant.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $($name::$word => stringify!($word),)*
                }
            }
        }
    };
}

pub(crate) use words;
