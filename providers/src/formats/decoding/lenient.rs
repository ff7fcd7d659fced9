//! Lenient parsing of wrong types from servers: `null` for an empty string, a number for an id.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// A string. Other scalars are converted; `null`, lists and objects become the empty string.
#[derive(Default)]
pub(crate) struct Text<'a>(pub(crate) Cow<'a, str>);

/// A number of tokens, or an index. Other values become 0. It is bounded, so that sums do not
/// overflow.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
pub(crate) struct Count(pub(crate) u64);

impl Count {
    fn new(n: u64) -> Count {
        Count(n.min(u32::MAX.into()))
    }
}

macro_rules! drain {
    ($access:ident, $next:ident) => {
        while $access.$next::<IgnoredAny>()?.is_some() {}
    };
}

/// Defines a visitor that accepts all scalars. The macro's input adds the other methods.
macro_rules! lenient {
    ($visitor:ident => $out:ty, $expecting:literal, $from:expr, { $($more:tt)* }) => {
        struct $visitor;
        impl<'de> Visitor<'de> for $visitor {
            type Value = $out;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str($expecting)
            }

            fn visit_unit<E>(self) -> Result<$out, E> {
                Ok(<$out>::default())
            }

            fn visit_bool<E>(self, _: bool) -> Result<$out, E> {
                Ok(<$out>::default())
            }

            fn visit_u64<E>(self, n: u64) -> Result<$out, E> {
                Ok($from(n))
            }

            fn visit_i64<E>(self, n: i64) -> Result<$out, E> {
                Ok($from(u64::try_from(n).unwrap_or(0)))
            }

            fn visit_f64<E>(self, n: f64) -> Result<$out, E> {
                Ok($from(n as u64))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<$out, A::Error> {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(<$out>::default())
            }
            $($more)*
        }
    };
}

macro_rules! deserialize_leniently {
    ($($type:ty: $visitor:ident),*) => {$(
        impl<'de: 'a, 'a> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                from.deserialize_any($visitor)
            }
        }
    )*};
}
pub(crate) use {deserialize_leniently, lenient};

lenient!(TextVisitor => Text<'de>, "a string", |n: u64| Text(Cow::Owned(n.to_string())), {
    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Text<'de>, E> {
        Ok(Text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Text<'de>, E> {
        Ok(Text(Cow::Owned(text.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Text<'de>, A::Error> {
        drain!(seq, next_element);
        Ok(Text::default())
    }
});

lenient!(CountVisitor => Count, "a number", Count::new, {
    fn visit_str<E>(self, text: &str) -> Result<Count, E> {
        Ok(Count::new(text.parse().unwrap_or(0)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Count, A::Error> {
        drain!(seq, next_element);
        Ok(Count::default())
    }
});

deserialize_leniently!(Text<'a>: TextVisitor);

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(CountVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_sum_of_counts_overflows() {
        for (text, count) in [("7", 7), ("-7", 0), ("\"7\"", 7), ("null", 0)] {
            assert_eq!(serde_json::from_str::<Count>(text).unwrap().0, count, "{text}");
        }
        for huge in ["18446744073709551615", "2e77", "\"18446744073709551615\""] {
            assert_eq!(
                serde_json::from_str::<Count>(huge).unwrap(),
                Count(u32::MAX.into()),
                "{huge}"
            );
        }
    }
}
