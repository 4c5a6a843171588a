//! Enums whose variants have a spelling: one list of them, so that a new variant is in all of it. Decides nothing.

/// Declares an enum with the spelling of each variant.
macro_rules! spelled {
    (
        $(#[$attribute:meta])*
        pub enum $name:ident {
            $($(#[$documentation:meta])* $variant:ident = $spelling:literal,)*
        }
    ) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name {
            $($(#[$documentation])* $variant,)*
        }

        impl $name {
            /// All of them, in the order of their declaration.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// As the contract, the protos and records spell it.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $spelling,)*
                }
            }

            /// Returns the one that is spelled so.
            pub fn spelled(text: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|one| one.as_str() == text)
            }
        }
    };
}

pub(crate) use spelled;
