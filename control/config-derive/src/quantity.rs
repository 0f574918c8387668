//! Bounds in the units of the configuration: `"250ms"..="1h"`, `"1KiB"..="1GiB"`.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Error, Expr, ExprLit, Lit, RangeLimits, Result};

/// The kinds of bounded quantities.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Count,
    Size,
    Percent,
    Time,
}

/// Returns the bounds of an inclusive range, or of `1..` for counts, as expressions.
pub(crate) fn bounds(kind: Kind, range: &Expr) -> Result<(TokenStream, TokenStream)> {
    let Expr::Range(range) = range else {
        return Err(Error::new_spanned(range, "expected a range such as `0..=100`"));
    };
    let Some(start) = &range.start else {
        return Err(Error::new_spanned(range, "the range needs a lower bound"));
    };
    match (&range.limits, &range.end) {
        (RangeLimits::Closed(_), Some(end)) => Ok((bound(kind, start)?, bound(kind, end)?)),
        (RangeLimits::HalfOpen(_), None) if kind == Kind::Count => {
            Ok((bound(kind, start)?, quote!(u64::MAX)))
        }
        _ => Err(Error::new_spanned(range, "expected an inclusive range such as `0..=100`")),
    }
}

fn bound(kind: Kind, expression: &Expr) -> Result<TokenStream> {
    let Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) = expression else {
        return Ok(quote!(#expression));
    };
    let value = text.value();
    let end = value.find(|c: char| !c.is_ascii_digit()).unwrap_or(value.len());
    let (digits, unit) = value.split_at(end);
    let factor: Option<u64> = match (kind, unit) {
        (Kind::Time, "us") => Some(1_000),
        (Kind::Time, "ms") => Some(1_000_000),
        (Kind::Time, "s") => Some(1_000_000_000),
        (Kind::Time, "m") => Some(60_000_000_000),
        (Kind::Time, "h") => Some(3_600_000_000_000),
        (Kind::Time, "d") => Some(86_400_000_000_000),
        (Kind::Size, "B") => Some(1),
        (Kind::Size, "KiB") => Some(1 << 10),
        (Kind::Size, "MiB") => Some(1 << 20),
        (Kind::Size, "GiB") => Some(1 << 30),
        (Kind::Size, "TiB") => Some(1 << 40),
        _ => None,
    };
    let number =
        digits.parse::<u64>().ok().zip(factor).and_then(|(number, factor)| number.checked_mul(factor));
    match number {
        Some(nanos) if kind == Kind::Time => Ok(quote!(::std::time::Duration::from_nanos(#nanos))),
        Some(bytes) => Ok(quote!(#bytes)),
        None => {
            Err(Error::new_spanned(text, "expected a whole number and a unit, such as \"5s\" or \"64KiB\""))
        }
    }
}
