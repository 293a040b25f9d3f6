// Numbers as people read them, the same way as in the charts that the program draws itself.
//
//   saccade.format(0.00123, "seconds")     "1.23 ms"; units are number, bytes, seconds and share
//   saccade.formatExact(0.1234567)         with all digits that mean something, for read-outs
//   saccade.niceTicks(low, high, most)     where to label an axis: 1, 2 or 5 times a power of ten apart
//   saccade.logTicks(low, high, most, unit)    where to label a logarithmic axis; bytes at powers of two
(function (saccade) {
  "use strict";
  const STEPS = {
    number: [[1, ""], [1e3, "k"], [1e6, "M"], [1e9, "G"], [1e12, "T"]],
    bytes: [[1, " B"], [1024, " KiB"], [1048576, " MiB"], [1073741824, " GiB"], [1099511627776, " TiB"]],
    seconds: [[1e-9, " ns"], [1e-6, " µs"], [1e-3, " ms"], [1, " s"]],
    share: [[0.01, " %"]],
  };
  const RAISED = "⁰¹²³⁴⁵⁶⁷⁸⁹";
  const minus = (text) => text.replace(/^-/, "−");
  const plain = (value, digits) => {
    const text = value.toPrecision(digits);
    return text.includes("e") ? String(Number(text)) : text.includes(".") ? text.replace(/\.?0+$/, "") : text;
  };

  function scientific(value, digits) {
    const [mantissa, exponent] = value.toExponential(digits - 1).split("e");
    const power = "10" + exponent.replace("+", "").replace("-", "⁻").replace(/\d/g, (digit) => RAISED[digit]);
    const short = mantissa.includes(".") ? mantissa.replace(/\.?0+$/, "") : mantissa;
    return short === "1" ? power : short === "-1" ? "−" + power : minus(short) + "·" + power;
  }

  saccade.format = function (value, unit = "number", digits = 3) {
    if (value === null || value === undefined || Number.isNaN(value)) return "–";
    if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
    if (value === 0) return "0";
    const size = Math.abs(value), steps = STEPS[unit] ?? STEPS.number;
    if (unit === "number" && (size < 1e-3 || size >= 1e15)) return scientific(value, digits);
    let [factor, name] = steps[0];
    if (unit !== "number" || size >= 1e5)
      for (const step of steps) if (step[0] <= size * (1 + 1e-9)) [factor, name] = step;
    const scaled = value / factor;
    return minus(Math.abs(scaled) >= 1000 ? String(Math.round(scaled)) : plain(scaled, digits)) + name;
  };

  saccade.formatExact = function (value, unit = "number") {
    if (unit === "number") {
      if (value === null || value === undefined || Number.isNaN(value)) return "–";
      if (Number.isInteger(value) && Math.abs(value) < 1e15) return minus(String(value));
      return saccade.format(value, unit, 6);
    }
    return saccade.format(value, unit, 5);
  };

  saccade.niceTicks = function (low, high, most) {
    if (!(high > low)) return [low];
    const power = 10 ** Math.floor(Math.log10((high - low) / most));
    const step = [1, 2, 5, 10].map((factor) => factor * power).find((each) => (high - low) / each <= most) ?? 10 * power;
    const ticks = [];
    for (let index = Math.ceil(low / step - 1e-9); index * step <= high + step * 1e-9; ++index)
      ticks.push(Number((index * step).toPrecision(12)));
    return ticks;
  };

  saccade.logTicks = function (low, high, most, unit = "number") {
    if (!(low > 0) || !(high > low)) return [low];
    const base = unit === "bytes" ? 2 : 10, log = (value) => Math.log(value) / Math.log(base);
    const within = (tick) => tick >= low * (1 - 1e-9) && tick <= high * (1 + 1e-9);
    // Labels of neighbours must not touch, and those of a logarithmic axis are unevenly far apart.
    const least = (0.75 * Math.log(high / low)) / most;
    const apart = (ticks) => ticks.every((tick, index) => index === 0 || Math.log(tick / ticks[index - 1]) >= least);
    const choose = (factors, stride) => {
      const ticks = [];
      for (let power = Math.floor(log(low)); power <= Math.ceil(log(high)); ++power)
        if (power % stride === 0)
          for (const factor of factors) ticks.push(Number((factor * base ** power).toPrecision(15)));
      return ticks.filter(within);
    };
    if (base === 10)
      for (const factors of [[1, 2, 3, 4, 5, 6, 7, 8, 9], [1, 2, 5], [1, 3]]) {
        const ticks = choose(factors, 1);
        if (apart(ticks)) return ticks;
      }
    for (let stride = 1; ; ++stride) {
      const ticks = choose([1], stride);
      if (apart(ticks)) return ticks;
    }
  };
})((globalThis.saccade ??= {}));
