//! Medians of a few numbers. Samples come in, one number goes out; an empty series has none.

/// The median: of an even count the mean of the middle two.
pub(crate) fn median(samples: &[f64]) -> Option<f64> {
    let mut sorted: Vec<f64> = samples.iter().copied().filter(|sample| sample.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        count if count % 2 == 1 => Some(sorted[middle]),
        _ => Some((sorted[middle - 1] + sorted[middle]) / 2.0),
    }
}

/// The spread of the rounds: (largest − smallest) / median.
pub(crate) fn spread(samples: &[f64]) -> Option<f64> {
    let middle = median(samples)?;
    let largest = samples.iter().copied().fold(f64::MIN, f64::max);
    let smallest = samples.iter().copied().fold(f64::MAX, f64::min);
    (middle > 0.0).then(|| (largest - smallest) / middle)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_odd_count_is_the_middle_one() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
    }

    #[test]
    fn the_median_of_an_even_count_lies_between_the_middle_two() {
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
    }

    #[test]
    fn nothing_has_no_median_and_what_is_no_number_is_left_out() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[f64::NAN, 2.0]), Some(2.0));
    }

    #[test]
    fn the_spread_is_relative_to_the_median() {
        assert_eq!(spread(&[9.0, 10.0, 12.0]), Some(0.3));
        assert_eq!(spread(&[]), None);
    }
}
