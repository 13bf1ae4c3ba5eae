//! The macro that makes a program's table, and the struct of its values, from the same rows.

/// Makes a `Table` and the struct of its values. A row is `name: kind, "VARIABLE", reach, "FORM", default "TEXT",
/// "help";`. The default is read like any other value. With `unset "words"` instead, the field is an `Option`, and the
/// words say what holds without a value.
macro_rules! table {
    (
        $(#[$doc:meta])*
        $table:ident: $values:ident, $program:literal, $section:expr;
        $($name:ident: $kind:ty, $variable:literal, $reach:expr, $form:literal, $how:ident $default:literal, $help:literal;)*
    ) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct $values {
            $(#[doc = $help] pub $name: $crate::rows::table!(@type $how $kind),)*
        }

        impl $values {
            /// The values of the given settings, and the defaults of all others.
            ///
            /// # Errors
            /// [`SettingsError::Value`](crate::SettingsError::Value) for the first one that cannot be read.
            pub fn read(given: &$crate::given::Given) -> Result<Self, $crate::error::SettingsError> {
                Ok(Self { $($name: $crate::rows::table!(@read $how given, $kind, $name, $default),)* })
            }
        }

        $(#[$doc])*
        pub const $table: $crate::table::Table = $crate::table::Table {
            program: $program,
            section: $section,
            settings: &[$($crate::table::Setting {
                name: stringify!($name),
                variable: $variable,
                reach: $reach,
                form: $form,
                default: $default,
                help: $help,
                shape: <$kind as $crate::kinds::Kind>::SHAPE,
                takes_empty: <$kind as $crate::kinds::Kind>::TAKES_EMPTY,
                is_secret: <$kind as $crate::kinds::Kind>::IS_SECRET,
            },)*],
        };
    };
    (@type default $kind:ty) => { <$kind as $crate::kinds::Kind>::Value };
    (@type unset $kind:ty) => { Option<<$kind as $crate::kinds::Kind>::Value> };
    (@read default $given:ident, $kind:ty, $name:ident, $default:literal) => {
        $given.value_or::<$kind>(stringify!($name), $default)?
    };
    (@read unset $given:ident, $kind:ty, $name:ident, $default:literal) => {
        $given.value::<$kind>(stringify!($name))?
    };
}
pub(crate) use table;
