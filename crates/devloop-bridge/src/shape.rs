//! Owns the two macros that spell a conversion once for both directions and every binding set: `record!` and
//! `variant!`. It must not name a type of the alphabet.
//!
//! In each, `wit` is the module of the generated bindings; the compiler refuses a field or case left out on
//! either side.

/// A struct of the domain and a record of the same fields.
#[doc(hidden)]
#[macro_export]
macro_rules! record {
    ($wit:ident, $module:ident :: $name:ident { $($field:ident),+ $(,)? }) => {
        impl $crate::IntoWit<$wit::$name> for $crate::domain::$module::$name {
            fn into_wit(self) -> $wit::$name {
                let $crate::domain::$module::$name { $($field),+ } = self;
                $wit::$name { $($field: $crate::IntoWit::into_wit($field)),+ }
            }
        }
        impl $crate::IntoDomain<$crate::domain::$module::$name> for $wit::$name {
            fn into_domain(self) -> Result<$crate::domain::$module::$name, $crate::Refused> {
                let $wit::$name { $($field),+ } = self;
                Ok($crate::domain::$module::$name { $($field: $crate::field($field, stringify!($field))?),+ })
            }
        }
    };
}

/// An enum of the domain and a variant of the same cases. A case is written like its pattern in the domain:
/// `Idle`, `Working(dispatch)`, `Rework { notes }` (one field crosses as itself) or
/// `Forge { pr, head } as ReviewRunForge` (several cross as that record).
#[doc(hidden)]
#[macro_export]
macro_rules! variant {
    ($wit:ident, $module:ident :: $name:ident {
        $($case:ident $(($($part:ident),+))? $({ $($field:ident),+ } $(as $record:ident)?)?),+ $(,)?
    }) => {
        impl $crate::IntoWit<$wit::$name> for $crate::domain::$module::$name {
            #[allow(unused_parens, reason = "one part is no tuple")]
            fn into_wit(self) -> $wit::$name {
                match self {$(
                    Self::$case $(($($part),+))? $({ $($field),+ })? => $wit::$name::$case
                        $(($crate::IntoWit::into_wit(($($part),+))))?
                        $(($crate::payload!(out $wit [$($record)?] $($field),+)))?,
                )+}
            }
        }
        impl $crate::IntoDomain<$crate::domain::$module::$name> for $wit::$name {
            #[allow(unused_parens, reason = "one part is no tuple")]
            fn into_domain(self) -> Result<$crate::domain::$module::$name, $crate::Refused> {
                Ok(match self {$(
                    Self::$case $((($($part),+)))?
                        $(($crate::payload!(pattern $wit [$($record)?] $($field),+)))? => {
                        $crate::domain::$module::$name::$case
                            $(($($crate::field($part, stringify!($case))?),+))?
                            $({ $(
                                $field: $crate::field(
                                    $field,
                                    concat!(stringify!($case), ".", stringify!($field)),
                                )?
                            ),+ })?
                    }
                )+})
            }
        }
    };
}

/// What a case of several or one named field carries.
#[doc(hidden)]
#[macro_export]
macro_rules! payload {
    (out $wit:ident [$record:ident] $($field:ident),+) => {
        $wit::$record { $($field: $crate::IntoWit::into_wit($field)),+ }
    };
    (out $wit:ident [] $field:ident) => {
        $crate::IntoWit::into_wit($field)
    };
    (pattern $wit:ident [$record:ident] $($field:ident),+) => {
        $wit::$record { $($field),+ }
    };
    (pattern $wit:ident [] $field:ident) => {
        $field
    };
}
