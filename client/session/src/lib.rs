//! What a client process knows of its vGPUs: handles, shadow state, order.
