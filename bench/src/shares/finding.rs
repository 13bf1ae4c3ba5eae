//! A figure about shares and its limits. In: what was measured. Out: a line, and whether it is within them.

use serde::Serialize;

/// A figure, and the limits it has to be within.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Finding {
    title: String,
    figure: f64,
    unit: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    least: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    most: Option<f64>,
}

impl Finding {
    pub(super) fn new(title: impl Into<String>, figure: f64, unit: &'static str) -> Self {
        Self { title: title.into(), figure, unit, least: None, most: None }
    }

    pub(super) fn at_least(self, least: f64) -> Self {
        Self { least: Some(least), ..self }
    }

    pub(super) fn at_most(self, most: f64) -> Self {
        Self { most: Some(most), ..self }
    }

    /// As a quick run tells it, which is too short for limits.
    pub(super) fn without_limits(self) -> Self {
        Self { least: None, most: None, ..self }
    }

    /// A figure that is no number is out of its limits.
    pub(super) fn is_within(&self) -> bool {
        self.least.is_none_or(|least| self.figure >= least) && self.most.is_none_or(|most| self.figure <= most)
    }

    pub(super) fn line(&self) -> String {
        let limits = match (self.least, self.most) {
            (Some(least), Some(most)) => format!(" ({least:.3} to {most:.3})"),
            (Some(least), None) => format!(" (at least {least:.3})"),
            (None, Some(most)) => format!(" (at most {most:.3})"),
            (None, None) => String::new(),
        };
        let verdict = if self.is_within() { "" } else { ", OUT OF ITS LIMITS" };
        format!("{}: {:.3} {}{limits}{verdict}", self.title, self.figure, self.unit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_within_its_limits_or_says_that_it_is_not() {
        let quarter = |figure| Finding::new("a quarter", figure, "%").at_least(23.0).at_most(27.0);
        assert!(quarter(25.0).is_within() && quarter(23.0).is_within());
        assert!(!quarter(27.1).is_within() && !quarter(f64::NAN).is_within());
        assert_eq!(quarter(30.0).line(), "a quarter: 30.000 % (23.000 to 27.000), OUT OF ITS LIMITS");
        assert!(Finding::new("told only", f64::NAN, "ns").is_within());
    }
}
