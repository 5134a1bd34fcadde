"""No public names: functions of the C API's table."""
