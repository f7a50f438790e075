// The message of bench/payload.py, to the byte.

const TEXT = "Your order has left the warehouse and will reach you within about two working days.";

export function body(number) {
  return {
    n: number,
    to: `customer-${String(number).padStart(8, "0")}@example.com`,
    template: "order-shipped",
    locale: "en_GB",
    urgent: false,
    text: TEXT,
  };
}

export function bodies(start, count) {
  return Array.from({ length: count }, (_, index) => body(start + index));
}
